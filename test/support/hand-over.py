"""Hands a listening socket to the proxy over descriptor 3, well or badly.

usage: hand-over.py KIND PORT [COMMAND...]

With the kind "each", PORT is how many descriptors from 3 on each get a listener of their own.

Prints one line of JSON with the port once it has sent. Then runs COMMAND and ends with its exit code, or keeps what it has
open until its input ends.
"""

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import threading

kind, port = sys.argv[1], int(sys.argv[2])
command = sys.argv[3:]
handover = socket.socket(fileno=3)


def listener():
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    made.listen(4096)
    return made


def connected():
    server = listener()
    client = socket.create_connection(server.getsockname())
    kept.append((server, server.accept()))
    return client


def bound():
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.bind(("127.0.0.1", port))
    return made


def unix_listener():
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind("\0svc-test-%d" % os.getpid())
    made.listen(1)
    return made


def send(*sockets):
    socket.send_fds(handover, [b"listener"], [each.fileno() for each in sockets])


def steal(sock):
    """Keeps the listener blocking, and takes connections away from the proxy, until the proxy shuts it down."""
    try:
        while True:
            fcntl.fcntl(sock.fileno(), fcntl.F_SETFL, 0)
            sock.accept()[0].close()
    except OSError:
        pass


kept = []
sock = None
if kind == "listener":
    sock = listener()
    send(sock)
elif kind == "each":
    count, port = port, 0
    sockets = [handover] + [socket.socket(fileno=fd) for fd in range(4, 3 + count)]
    for each in sockets:
        kept.append(listener())
        socket.send_fds(each, [b"listener"], [kept[-1].fileno()])
        each.close()
elif kind == "two":
    sock = listener()
    send(sock, listener())
elif kind == "twice":
    sock = listener()
    send(sock)
    try:
        while True:
            send(listener())
    except OSError:
        pass
elif kind == "many":
    sock = listener()
    send(sock, *[sock] * 252)
elif kind == "pipe":
    read_end, write_end = os.pipe()
    socket.send_fds(handover, [b"listener"], [read_end])
elif kind == "udp":
    send(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
elif kind == "connected":
    send(connected())
elif kind == "bound":
    send(bound())
elif kind == "unix":
    send(unix_listener())
elif kind == "words":
    handover.send(b"there is no descriptor in this")
elif kind == "end":
    pass
elif kind == "shutdown":
    sock = listener()
    send(sock)
elif kind == "linger":
    sock = listener()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 5))
    send(sock)
elif kind == "blocking":
    sock = listener()
    send(sock)
    threading.Thread(target=steal, args=(sock,), daemon=True).start()
else:
    sys.exit("unknown kind: " + kind)

handover.close()
print(json.dumps({"port": sock.getsockname()[1] if sock else 0}), flush=True)
if kind == "shutdown":
    sys.stdin.readline()
    sock.shutdown(socket.SHUT_RDWR)
    print(json.dumps({"shutdown": True}), flush=True)
if command:
    # What the proxy has taken must work without a copy in this process.
    if sock:
        sock.close()
    sys.exit(subprocess.run(command).returncode)
sys.stdin.read()
# No code of a thread delays the end.
os._exit(0)
