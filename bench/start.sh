#!/bin/sh
# How large the commands are, and how long each takes to start.
#
#   bench/start.sh [BEFORE]        BEFORE: a folder of commands, to compare bin/ with
#
# N=50 times in turn, each answers --version. It prints the megabytes of the folders, and for each command the medians and minima of its
# processor time, in ms. It needs make build and python3.
set -eu
cd "$(dirname "$0")/.."
du -sm ${1:+"$1"} bin
exec python3 - "${N:-50}" ${1:+"$1"} bin << 'END'
import os, statistics, sys
names = sorted(f for f in os.listdir('bin') if os.path.isfile('bin/' + f))
null = os.open(os.devnull, os.O_WRONLY)
took = {(c, d): [] for c in names for d in sys.argv[2:]}
for _ in range(int(sys.argv[1])):
    for c, d in took:
        pid = os.posix_spawn(d + '/' + c, [d + '/' + c, '--version'], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, null, 1)])
        _, status, used = os.wait4(pid, 0)
        if status:
            sys.exit(f'{d}/{c}: {status}')
        took[c, d].append((used.ru_utime + used.ru_stime) * 1e3)
for d in sys.argv[2:]:
    print(f'all of {d}: {sum(statistics.median(took[c, d]) for c in names):.1f} ms, least {sum(min(took[c, d]) for c in names):.1f}')
for c in names:
    print(c, *(f'{statistics.median(took[c, d]):.2f} (least {min(took[c, d]):.2f})' for d in sys.argv[2:]))
END
