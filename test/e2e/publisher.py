# Copyright The otelcol-fpm Authors
# SPDX-License-Identifier: Apache-2.0
"""A publisher on the real libzmq, driven by the Go tests.

It reads one JSON command a line from standard input and answers each with one
JSON line on standard output. The records are msgspec structs with the names and
the order of the wire table, as in the producers themselves, and what the row of
a trace file must say is computed here: this file shares no code with the product.

Everything that is published also goes to the log file, one JSON line each.
"""

import json
import random
import struct
import sys
import time
from decimal import Decimal

import msgspec
import zmq


class ScheduledRequests(msgspec.Struct):
    num_prefill_requests: int = 0
    sum_prefill_tokens: int = 0
    var_prefill_length: float = 0.0
    sum_prefill_kv_tokens: int = 0
    num_decode_requests: int = 0
    sum_decode_kv_tokens: int = 0
    var_decode_kv_tokens: float = 0.0


class QueuedRequests(msgspec.Struct):
    num_prefill_requests: int = 0
    sum_prefill_tokens: int = 0
    var_prefill_length: float = 0.0
    num_decode_requests: int = 0
    sum_decode_kv_tokens: int = 0
    var_decode_kv_tokens: float = 0.0


class ForwardPassMetrics(msgspec.Struct):
    version: int = 1
    worker_id: str = ""
    dp_rank: int = 0
    counter_id: int = 0
    wall_time: float = 0.0
    scheduled_requests: ScheduledRequests = msgspec.field(default_factory=ScheduledRequests)
    queued_requests: QueuedRequests = msgspec.field(default_factory=QueuedRequests)


# --- the text of a row (ROW-12 to ROW-18) ---


def float_text(value):
    """ROW-13, from the shortest digits that Python's repr gives."""
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    minus = "-" if sign else ""
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return minus + "0.0"
    point = len(text) + exponent  # of 0.d1d2... x 10^point
    text = text.rstrip("0")
    count = len(text)
    if count <= point <= 16:
        return minus + text + "0" * (point - count) + ".0"
    if 0 < point <= 16:
        return minus + text[:point] + "." + text[point:]
    if -5 < point <= 0:
        return minus + "0." + "0" * -point + text
    mantissa = text if count == 1 else text[0] + "." + text[1:]
    return f"{minus}{mantissa}e{point - 1}"


ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def string_text(value):
    """ROW-18."""
    return '"' + "".join(ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in value) + '"'


def json_text(value):
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return float_text(value)
    if isinstance(value, str):
        return string_text(value)
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    return "{" + ",".join(string_text(k) + ":" + json_text(v) for k, v in value.items()) + "}"


# --- random records ---


def realistic(rng, record):
    prefills, decodes, waiting = rng.randrange(4), rng.randrange(200), rng.randrange(20)
    preempted = rng.randrange(3)
    record.wall_time = rng.lognormvariate(-4, 0.5)
    if prefills:
        record.scheduled_requests.num_prefill_requests = prefills
        record.scheduled_requests.sum_prefill_tokens = rng.randrange(1, 8192)
        record.scheduled_requests.var_prefill_length = rng.random() * 1e6 if prefills > 1 else 0.0
        record.scheduled_requests.sum_prefill_kv_tokens = rng.randrange(50_000)
    if decodes:
        record.scheduled_requests.num_decode_requests = decodes
        record.scheduled_requests.sum_decode_kv_tokens = decodes * rng.randrange(100, 9000)
        record.scheduled_requests.var_decode_kv_tokens = rng.random() * 1e7
    record.queued_requests.num_prefill_requests = waiting
    record.queued_requests.sum_prefill_tokens = waiting * 700
    record.queued_requests.var_prefill_length = rng.random() * 1e5 if waiting else 0.0
    record.queued_requests.num_decode_requests = preempted
    record.queued_requests.sum_decode_kv_tokens = preempted * 4000
    record.queued_requests.var_decode_kv_tokens = rng.random() if preempted else 0.0


def any_count(rng):
    """All widths of an int, and both ends of each."""
    bits = rng.choice([0, 7, 8, 15, 16, 31, 32, 53, 62, 63])
    return max(0, min(2**63 - 1, (1 << bits) + rng.randrange(-2, 2)))


def any_float(rng):
    """A finite float64 that is not negative, over all magnitudes."""
    if rng.random() < 0.5:
        return round(rng.random() * 10 ** rng.randrange(-8, 19), rng.randrange(0, 17))
    while True:
        value = struct.unpack(">d", struct.pack(">Q", rng.getrandbits(63)))[0]
        if value == value and value != float("inf"):
            return value


def extreme(rng, record):
    record.wall_time = any_float(rng)
    for part in (record.scheduled_requests, record.queued_requests):
        for name in part.__struct_fields__:
            value = any_float(rng) if name.startswith("var_") else any_count(rng)
            setattr(part, name, value)


TEXT = ["", "plain", 'quote " and \\', "tab\tline\nbell\x07", "wörk/er <&>", "\u2028\ufeff", "日本語", "\U0001f680", "\x7f\x00"]


def any_value(rng, depth=0):
    kind = rng.randrange(8 if depth < 3 else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind == 1:
        return rng.choice([0, -1, -33, 127, 2**31, 2**53 + 1, 2**63 - 1, -(2**63)])
    if kind == 2:
        return rng.choice([1, -1]) * any_float(rng)
    if kind == 3:
        return 2**64 - 1 if rng.random() < 0.2 else rng.randrange(1000)
    if kind in (4, 5):
        return rng.choice(TEXT)
    if kind == 6:
        return [any_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(TEXT) + str(i): any_value(rng, depth + 1) for i in range(rng.randrange(4))}


def extended(rng, record):
    """With keys that version 1 does not know: they are kept where they stand."""
    realistic(rng, record)
    fields = msgspec.to_builtins(record)
    requests = rng.randrange(40)
    fields["scheduled_requests"]["extend_lengths"] = [rng.randrange(1, 5000) for _ in range(requests)]
    fields["scheduled_requests"]["past_kv_lengths"] = [rng.randrange(100_000) for _ in range(requests)]
    fields["x_" + rng.choice(TEXT)] = any_value(rng)
    if rng.random() < 0.5:
        fields["timing_scope"] = "execute_model_cuda"
    if rng.random() < 0.3:
        fields = dict(reversed(fields.items()))
    return fields


def random_record(rng, worker_id, dp_rank, counter_id):
    record = ForwardPassMetrics(worker_id=worker_id, dp_rank=dp_rank, counter_id=counter_id)
    kind = rng.random()
    if kind < 0.6:
        realistic(rng, record)
    elif kind < 0.75:
        extreme(rng, record)
    elif kind < 0.9:
        return extended(rng, record)
    return record  # a heartbeat


# --- sockets ---


class Publisher:
    def __init__(self, log_path):
        self.context = zmq.Context()
        self.sockets = []
        self.subscribers = []
        self.encoder = msgspec.msgpack.Encoder()
        self.log = open(log_path, "w", encoding="utf-8")

    def bind(self, endpoints, high_water_mark):
        socket = self.context.socket(zmq.XPUB)
        socket.setsockopt(zmq.XPUB_VERBOSER, 1)  # tells of every subscriber, also of equal ones
        socket.setsockopt(zmq.SNDHWM, high_water_mark)
        socket.setsockopt(zmq.LINGER, 0)
        for endpoint in endpoints:
            socket.bind(endpoint)
        self.sockets.append(socket)
        self.subscribers.append(0)
        return {"socket": len(self.sockets) - 1}

    def close(self, socket):
        self.sockets[socket].close(linger=0)
        self.sockets[socket] = None
        return {}

    def wait(self, socket, subscribers, timeout):
        deadline = time.monotonic() + timeout
        while self.subscribers[socket] < subscribers:
            left = deadline - time.monotonic()
            if left <= 0 or not self.sockets[socket].poll(int(left * 1000) + 1):
                raise TimeoutError(f"{self.subscribers[socket]} of {subscribers} subscribers after {timeout} s")
            self.subscribers[socket] += 1 if self.sockets[socket].recv()[:1] == b"\x01" else -1
        return {}

    def send(self, socket, sequence, payload, **about):
        self.sockets[socket].send_multipart([b"", struct.pack(">Q", sequence), payload])
        self.log.write(json.dumps({"socket": socket, "sequence": sequence, **about}) + "\n")

    def send_record(self, socket, sequence, record, name=""):
        payload = self.encoder.encode(record)
        fields = msgspec.to_builtins(record)
        self.send(
            socket, sequence, payload, name=name, worker_id=fields["worker_id"], dp_rank=fields["dp_rank"],
            counter_id=fields["counter_id"], fpm=json_text(fields), sent_ns=time.time_ns(),
        )

    def passes(self, socket, count, first, seed, worker_id, dp_rank, rate):
        rng = random.Random(seed)
        start = time.monotonic()
        for i in range(count):
            if rate and (early := start + i / rate - time.monotonic()) > 0:
                time.sleep(early)
            self.send_record(socket, first + i, random_record(rng, worker_id, dp_rank, first + i))
        self.log.flush()
        return {}

    def record(self, socket, sequence, name, worker_id, dp_rank, counter_id, wall_time):
        self.send_record(socket, sequence, ForwardPassMetrics(
            worker_id=worker_id, dp_rank=dp_rank, counter_id=counter_id, wall_time=wall_time,
            scheduled_requests=ScheduledRequests(num_decode_requests=1, sum_decode_kv_tokens=100)), name)
        self.log.flush()
        return {}

    def heartbeats(self, socket, count, first, worker_id, dp_rank, interval):
        for i in range(count):
            if i:
                time.sleep(interval)
            self.send_record(socket, first + i, ForwardPassMetrics(worker_id=worker_id, dp_rank=dp_rank, counter_id=first + i))
        self.log.flush()
        return {}

    def payload(self, socket, sequence, name, hex):
        """A given payload. Its row is computed only where msgspec reads it."""
        payload = bytes.fromhex(hex)
        try:
            text = json_text(msgspec.msgpack.decode(payload))
        except (msgspec.DecodeError, ValueError, TypeError, RecursionError, AttributeError):
            text = ""
        self.send(socket, sequence, payload, name=name, fpm=text, sent_ns=time.time_ns())
        self.log.flush()
        return {}


def main():
    publisher = Publisher(sys.argv[1])
    commands = {name: getattr(publisher, name) for name in
                ("bind", "close", "wait", "passes", "record", "heartbeats", "payload")}
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = commands[command.pop("do")](**command)
        except Exception as fault:  # the test decides what a fault means
            answer = {"error": f"{type(fault).__name__}: {fault}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
