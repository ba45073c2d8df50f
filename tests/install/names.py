"""Whether a static `larder` finds names, on a root that has nothing else: names.py ROOT, in a network of its own.

A name server on port 53 knows `larder.example` alone, and a server stands at the addresses of it and of the name that ROOT/etc/hosts has. Each is asked
for by name.
"""

import http.server
import shutil
import socket
import subprocess
import sys
import threading

ROOT, = sys.argv[1:]
CHROOT = shutil.which("chroot")
ADDRESS = "127.0.0.5"
asked = []


def label(query):
    """The name that is asked for, and where it ends."""
    parts, at = [], 12
    while query[at]:
        parts.append(query[at + 1:at + 1 + query[at]].decode())
        at += 1 + query[at]
    return ".".join(parts), at + 1


def answer_names(sock):
    while True:
        query, client = sock.recvfrom(512)
        name, end = label(query)
        asked.append(name)
        kind, question = int.from_bytes(query[end:end + 2], "big"), query[12:end + 4]
        known = name == "larder.example" and kind == 1
        record = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04" + socket.inet_aton(ADDRESS) if known else b""
        flags = b"\x81\x80" if name == "larder.example" else b"\x81\x83"
        sock.sendto(query[:2] + flags + b"\0\x01" + known.to_bytes(2, "big") + b"\0\0\0\0" + question + record, client)


class Ready(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok\n")

    def log_message(self, *_):
        pass


def health(name):
    command = [CHROOT, "--userspec=65534:65534", ROOT, "/larder", "health", f"http://{name}:8000"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env={})
    return ended.returncode, ended.stdout + ended.stderr


subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
names = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
names.bind(("127.0.0.1", 53))
threading.Thread(target=answer_names, args=(names,), daemon=True).start()
server = http.server.ThreadingHTTPServer(("0.0.0.0", 8000), Ready)
threading.Thread(target=server.serve_forever, daemon=True).start()

for name, wanted in [("larder.example", 0), ("named-in-hosts", 0), ("nobody.example", 1)]:
    code, said = health(name)
    if code != wanted:
        sys.exit(f"{name}: it left with {code}: {said}")
if "larder.example" not in asked or "named-in-hosts" in asked:
    sys.exit(f"the name server was asked for {asked}")
