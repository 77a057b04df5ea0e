"""FTP and Gopher servers of Debian on loopback, for protocols.sh.

usage: protocols.py ROOT READY

Serves the folder ROOT until standard input closes: by pyftpdlib on 127.0.0.2, by
pyftpdlib without MLSD and EPSV on 127.0.0.3, and by gophernicus on 127.0.0.4. Writes
the three ports to the file READY once all listen.
"""
import os
import socket
import subprocess
import sys
import threading

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer

root, ready = sys.argv[1:]
authorizer = DummyAuthorizer()
authorizer.add_anonymous(root)


class Handler(FTPHandler):
    pass


class OldHandler(FTPHandler):
    proto_cmds = {k: v for k, v in FTPHandler.proto_cmds.items() if k not in ("MLSD", "MLST", "EPSV")}


ports = []
for addr, handler in (("127.0.0.2", Handler), ("127.0.0.3", OldHandler)):
    handler.authorizer = authorizer
    server = FTPServer((addr, 0), handler)
    ports.append(server.socket.getsockname()[1])

# One loop serves both.
threading.Thread(target=server.serve_forever, kwargs={"handle_exit": False}, daemon=True).start()

inetd = socket.create_server(("127.0.0.4", 0))
ports.append(inetd.getsockname()[1])


# It refuses to run as root.
nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}


def gopher():
    while True:
        conn, _ = inetd.accept()
        with conn:  # gophernicus talks to a socket on standard input and output
            subprocess.run(["gophernicus", "-h", "127.0.0.4", "-p", str(ports[2]), "-r", root, "-nu", "-nv"],
                           stdin=conn, stdout=conn, stderr=subprocess.DEVNULL, check=False, **nobody)


threading.Thread(target=gopher, daemon=True).start()
with open(ready + ".tmp", "w") as f:
    print(*ports, file=f)
os.rename(ready + ".tmp", ready)
sys.stdin.read()
os._exit(0)
