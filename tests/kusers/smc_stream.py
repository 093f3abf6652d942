#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""smc_stream.py eid NAME | serve PORT | talk ADDRESS PORT STREAMS BYTES

`eid` gives this machine a user-defined EID: with RoCE v2 there is only version 2 of SMC-R, and that
is spoken by machines that share an EID.
Streams over sockets of AF_SMC. The server sends back what it gets; the client sends random data and
compares what comes back with it, over STREAMS connections at the same time.
"""

import ctypes
import os
import socket
import struct
import sys
import threading

AF_SMC = 43
PIECE = 100_000
SECONDS = 60


def smc_socket():
    sock = socket.socket(AF_SMC, socket.SOCK_STREAM, 0)
    sock.settimeout(SECONDS)
    return sock


NETLINK_GENERIC = 16
NLM_F_REQUEST_ACK = 5
NLMSG_ERROR = 2
GENL_ID_CTRL = 16
CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_ID, CTRL_ATTR_FAMILY_NAME = 3, 1, 2
SMC_NETLINK_ADD_UEID, SMC_NLA_EID_TABLE_ENTRY = 10, 1
EID_LENGTH = 32


def attribute(kind, value):
    data = struct.pack("=HH", 4 + len(value), kind) + value
    return data + bytes(-len(data) % 4)


def genl(family, command, attributes):
    """Sends one request; returns the attributes of the answer, if there is one."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC) as sock:
        body = struct.pack("=BBH", command, 1, 0) + attributes
        sock.send(struct.pack("=IHHII", 16 + len(body), family, NLM_F_REQUEST_ACK, 1, 0) + body)
        answer = sock.recv(65536)
    if struct.unpack_from("=H", answer, 4)[0] == NLMSG_ERROR:
        error = -struct.unpack_from("=i", answer, 16)[0]
        if error:
            raise OSError(error, os.strerror(error))
        return {}
    found, at = {}, 20
    while at + 4 <= struct.unpack_from("=I", answer)[0]:
        length, kind = struct.unpack_from("=HH", answer, at)
        found[kind] = answer[at + 4:at + length]
        at += (length + 3) & ~3
    return found


def add_eid(name):
    smc = genl(GENL_ID_CTRL, CTRL_CMD_GETFAMILY,
               attribute(CTRL_ATTR_FAMILY_NAME, b"SMC_GEN_NETLINK\0"))
    family = struct.unpack("=H", smc[CTRL_ATTR_FAMILY_ID])[0]
    eid = name.encode().ljust(EID_LENGTH) + b"\0"
    genl(family, SMC_NETLINK_ADD_UEID, attribute(SMC_NLA_EID_TABLE_ENTRY, eid))


# Python knows no addresses for this family; they are those of IPv4.
LIBC = ctypes.CDLL(None, use_errno=True)


def ipv4(address, port):
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, socket.inet_aton(address))


def call(function, *arguments):
    result = function(*arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return result


def echo(sock):
    with sock:
        while data := sock.recv(PIECE):
            sock.sendall(data)


def serve(port):
    with socket.socket(AF_SMC, socket.SOCK_STREAM, 0) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        call(LIBC.bind, listener.fileno(), ipv4("0.0.0.0", port), 16)
        listener.listen(64)
        while True:
            sock = socket.socket(fileno=call(LIBC.accept, listener.fileno(), None, None),
                                 family=AF_SMC, type=socket.SOCK_STREAM, proto=0)
            sock.settimeout(SECONDS)
            threading.Thread(target=echo, args=(sock,), daemon=True).start()


def send_all(sock, data):
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def stream(address, port, length, good):
    data = os.urandom(length)
    back = bytearray()
    with smc_socket() as sock:
        sock.settimeout(None)
        call(LIBC.connect, sock.fileno(), ipv4(address, port), 16)
        sock.settimeout(SECONDS)
        sender = threading.Thread(target=send_all, args=(sock, data), daemon=True)
        sender.start()
        while piece := sock.recv(PIECE):
            back += piece
        sender.join()
    if back == data:
        good.append(True)
    else:
        print(f"{len(back)} of {length} bytes came back, or others than were sent")


def talk(address, port, streams, length):
    good = []
    threads = [threading.Thread(target=stream, args=(address, port, length, good))
               for _ in range(streams)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return 0 if len(good) == streams else 1


def main(arguments):
    if len(arguments) == 2 and arguments[0] == "eid":
        return add_eid(arguments[1])
    if len(arguments) == 2 and arguments[0] == "serve":
        return serve(int(arguments[1]))
    if len(arguments) == 5 and arguments[0] == "talk":
        return talk(arguments[1], *map(int, arguments[2:]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
