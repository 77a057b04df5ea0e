#!/usr/bin/env bash
# Crawls of several shards on a real Slurm and a real Spark, on loopback: two nodes and two workers of this machine.
#
#   make engines                       the tests, some minutes: ten at a load of 25
#   pkg/e2e/engines.sh COMMAND…      another command, beside the daemons
#
# Nodes, executors and drivers are killed or frozen in each stage: TestEngines in engines_test.go says what must hold. Needs
# Debian's slurm-wlm slurmctld slurmd munge strace default-jre-headless python3-venv, and PyPI for pyspark and snakemake (VENV= names a folder
# that has them). Root or not. All that it started is stopped at its end.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
PATH=$PATH:/usr/sbin:/sbin
for tool in slurmctld slurmd munged strace java python3; do
  command -v $tool > /dev/null || { echo "engines.sh: $tool is not there" >&2; exit 1; }
done
work=$(mktemp -d /tmp/engines.XXXXXX) # short: sockets are in it
export MERCATOR_ENGINES=$work         # by which stop knows what belongs to this

# ours lists the processes that have MERCATOR_ENGINES, and all of their sessions but this one: slurmstepd clears its environment.
ours() {
  local pids sessions
  pids=$(grep -lsF "MERCATOR_ENGINES=$work" /proc/[0-9]*/environ | cut -d / -f 3 | grep -vx $$ | paste -sd ,)
  [ -n "$pids" ] || return 0
  sessions=$(ps -o sid= -p "$pids" | tr -d ' ' | sort -u | grep -vx "$session" | paste -sd ,)
  echo "$pids" | tr , '\n'
  [ -z "$sessions" ] || ps -o pid= -s "$sessions" | tr -d ' '
}
session=$(ps -o sid= -p $$ | tr -d ' ')
stop() {
  status=$?
  trap - EXIT INT TERM HUP
  set +e
  local i
  for i in $(seq 20); do
    ours > "$work/left"
    [ -s "$work/left" ] || break
    xargs kill -KILL < "$work/left" 2> /dev/null
    sleep 0.2
  done
  [ $status = 0 ] || tail -n 5 "$work"/*.log >&2
  rm -rf "$work"
  exit $status
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# daemon NAME COMMAND…: runs in the background; what it says is in $work/NAME.log.
daemon() {
  local name=$1; shift
  "$@" >> "$work/$name.log" 2>&1 < /dev/null &
  disown
}
# until_done SECONDS WHAT COMMAND…
until_done() {
  local end=$((SECONDS + $1)) what=$2; shift 2
  until "$@" > /dev/null 2>&1; do
    [ $SECONDS -lt $end ] || { echo "engines.sh: $what is not ready" >&2; exit 1; }
    sleep 0.2
  done
}

if [ -z "${VENV:-}" ]; then
  VENV=$work/venv
  python3 -m venv "$VENV"
  "$VENV/bin/pip" install --quiet --disable-pip-version-check pyspark==4.3.0 snakemake==9.27.1
fi
export PATH=$VENV/bin:$PATH
spark=$("$VENV/bin/python" -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')

# --- Slurm --------------------------------------------------------------------

# Seven ports that nothing listens on.
port=$((10000 + $$ % 20000))
while ss -Hltn "sport >= $port and sport <= $((port + 6))" | grep -q .; do port=$((port + 7)); done
host=$(hostname -s) user=$(id -un)
mkdir "$work/state" "$work/n1" "$work/n2"
head -c 1024 /dev/urandom > "$work/munge.key"
chmod 600 "$work/munge.key"
export SLURM_CONF=$work/slurm.conf
cat > "$SLURM_CONF" << EOF
ClusterName=mercator
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
AuthInfo=socket=$work/munge.sock
SlurmUser=$user
SlurmdUser=$user
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
SlurmdTimeout=6
SlurmdParameters=config_overrides
MpiDefault=none
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,sched_interval=1
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2
PartitionName=all Nodes=n1,n2 Default=YES State=UP
EOF
daemon munged munged --foreground --force --socket="$work/munge.sock" --key-file="$work/munge.key" --pid-file="$work/munged.pid" --log-file="$work/munged.log" --seed-file="$work/munged.seed"
until_done 20 munged test -S "$work/munge.sock"
daemon slurmctld slurmctld -D -f "$SLURM_CONF"
for n in n1 n2; do daemon $n slurmd -D -N $n -f "$SLURM_CONF"; done

# --- Spark --------------------------------------------------------------------

export JAVA_TOOL_OPTIONS='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' SPARK_DAEMON_JAVA_OPTS=-Dspark.master.rest.enabled=false # they start sooner
export SPARK_LOCAL_IP=127.0.0.1 SPARK_DAEMON_MEMORY=256m SPARK_MASTER=spark://127.0.0.1:$((port + 3))
daemon master "$spark/bin/spark-class" org.apache.spark.deploy.master.Master --host 127.0.0.1 --port $((port + 3)) --webui-port $((port + 4))
for n in 1 2; do
  daemon worker$n "$spark/bin/spark-class" org.apache.spark.deploy.worker.Worker --host 127.0.0.1 --cores 2 --memory 1g \
    --work-dir "$work/worker$n" --webui-port $((port + 4 + n)) "$SPARK_MASTER"
done
# Executors are given up after 8 s without a word.
export SPARK_ARGS="--master $SPARK_MASTER --executor-memory 512m --conf spark.driver.host=127.0.0.1 --conf spark.ui.enabled=false --conf spark.executor.heartbeatInterval=1s --conf spark.network.timeout=8s --conf spark.network.timeoutInterval=2s"

until_done 60 Slurm bash -c '[ "$(sinfo -h -N -t idle -o %n | wc -l)" = 2 ]'
until_done 300 Spark bash -c '[ "$(grep -c "Registering worker" "$MERCATOR_ENGINES/master.log")" = 2 ]'

cd "$here"
export MERCATOR_PAGES=pyspark
[ $# -gt 0 ] || set -- "${GO:-go}" test -count=1 -vet=off -timeout 30m -run '^TestEngines$|^TestRecipes$/^parquet.md$' ./pkg/e2e
"$@" &
wait $!
