# Copyright The otelcol-fpm Authors
# SPDX-License-Identifier: Apache-2.0
"""A publisher on the real libzmq that may be killed, stopped and restarted.

Its only argument is a JSON object, see Engine in engine_test.go. Each message is
in the log before it is sent, so that nothing can arrive that the log does not
have. It prints "bound" once it listens and "done" after the last message, and then
keeps its socket. SIGTERM, or the end of standard input, ends it.
"""

import json
import os
import random
import signal
import struct
import sys
import threading
import time

import msgspec
import zmq

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from publisher import ForwardPassMetrics, json_text, realistic  # noqa: E402

INVALID = [
    ("truncated", lambda payload: payload[:-1]),
    ("trailing_bytes", lambda payload: payload + b"\xc0"),
    ("not_a_map", lambda payload: b"\xdd\xff\xff\xff\xff"),
    ("truncated", lambda payload: b"\xdf\xff\xff\xff\xff"),
    ("missing_field", lambda payload: b"\x80"),
    ("bad_key", lambda payload: b"\x81\x01\x02"),
]


class Engine:
    def __init__(self, options):
        self.options = options
        self.log = os.open(options["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.stopped = threading.Event()
        self.socket = zmq.Context().socket(zmq.XPUB)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.LINGER, 2000)
        self.socket.bind(options["bind"])
        self.rng = random.Random(f"{options['worker_id']} {options['life']}")
        self.encoder = msgspec.msgpack.Encoder()

    def message(self, index):
        sequence = self.options["first"] + index
        record = ForwardPassMetrics(worker_id=self.options["worker_id"], counter_id=sequence)
        realistic(self.rng, record)
        payload = self.encoder.encode(record)
        entry = {
            "endpoint": self.options["endpoint"], "life": self.options["life"], "sequence": sequence,
            "worker_id": self.options["worker_id"], "sent_ns": time.time_ns(),
        }
        every = self.options["invalid_every"]
        if every and index % every == every - 1:
            entry["invalid"], spoil = INVALID[index // every % len(INVALID)]
            payload = spoil(payload)
        else:
            entry["text"] = json_text(msgspec.to_builtins(record))
        return sequence, payload, entry

    def publish(self):
        count, rate = self.options["count"], self.options["rate"]
        if self.options["wait"]:
            while not self.stopped.is_set() and not self.socket.poll(100):
                pass
        start = time.monotonic()
        index = 0
        while not self.stopped.is_set() and (not count or index < count):
            if rate and (early := start + index / rate - time.monotonic()) > 0:
                time.sleep(early)
            sequence, payload, entry = self.message(index)
            os.write(self.log, json.dumps(entry).encode() + b"\n")
            self.socket.send_multipart([b"", struct.pack(">Q", sequence), payload])
            index += 1


def main():
    engine = Engine(json.loads(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: engine.stopped.set())
    parent = threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True)
    parent.start()
    print("bound", flush=True)
    engine.publish()
    print("done", flush=True)
    while not engine.stopped.is_set():
        time.sleep(0.05)
    engine.socket.close()
    engine.socket.context.term()
    os._exit(0)


if __name__ == "__main__":
    main()
