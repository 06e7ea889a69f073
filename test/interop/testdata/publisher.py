# Copyright The otelcol-fpm Authors
# SPDX-License-Identifier: Apache-2.0
"""A PUB socket of libzmq for interop tests.

It binds, prints the endpoint that it bound, and sends numbered messages as FPM
publishers do (empty topic, 8-byte sequence, payload) until its standard input
ends.
"""

import argparse
import sys
import threading
import time

import zmq


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("endpoint")
    parser.add_argument("--rate", type=int, default=200, help="messages per second; 0 sends nothing")
    parser.add_argument("--size", type=int, default=440, help="bytes of the payload")
    parser.add_argument("--heartbeat-interval", type=int, default=0, help="ms")
    parser.add_argument("--heartbeat-timeout", type=int, default=0, help="ms")
    parser.add_argument("--send-buffer", type=int, default=0, help="bytes; 0 is the system's")
    parser.add_argument("--xpub", action="store_true")
    args = parser.parse_args()

    socket = zmq.Context().socket(zmq.XPUB if args.xpub else zmq.PUB)
    socket.setsockopt(zmq.LINGER, 0)
    if args.endpoint.startswith("tcp://["):
        socket.setsockopt(zmq.IPV6, 1)
    if args.send_buffer:
        socket.setsockopt(zmq.SNDBUF, args.send_buffer)
    if args.heartbeat_interval:
        socket.setsockopt(zmq.HEARTBEAT_IVL, args.heartbeat_interval)
        socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, args.heartbeat_timeout)
    socket.bind(args.endpoint)
    print(socket.getsockopt_string(zmq.LAST_ENDPOINT), flush=True)

    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    payload = b"\x00" * args.size
    sequence = 0
    started = time.monotonic()
    while not ended.wait(0.001):
        due = int((time.monotonic() - started) * args.rate)
        while sequence < due:
            socket.send_multipart((b"", sequence.to_bytes(8, "big"), payload))
            sequence += 1
    socket.close()


main()
