"""Runs tasks of a crawl on Spark. mcrawl starts it by pyspark. Each line of standard input is a stage as JSON; the answer is a line with the tasks that failed."""
import json
import socket
import subprocess
import sys
import time

from pyspark import SparkConf, SparkContext


def task(stage):
    """What runs one task, in an executor."""
    def end_with_us():  # an executor that is killed takes the task with it, on Linux
        import ctypes
        getattr(ctypes.CDLL(None), "prctl", lambda *_: 0)(1, 9)

    def run(shard):
        node, log = socket.gethostname(), str(shard).join(stage["log"].rsplit("%a", 1))
        try:
            with open(log, "a") as out:
                print(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), node, "by Spark", file=out, flush=True)
                code = subprocess.run(stage["command"] + [str(shard)], stdin=subprocess.DEVNULL, stdout=out, stderr=out, preexec_fn=end_with_us).returncode
        except OSError as e:
            return {"shard": shard, "node": node, "code": 1, "why": f"{e.filename}: {e.strerror}"}
        return {"shard": shard, "node": node, "code": code, "why": ""}

    return run


def main():
    spark = SparkContext(appName="mercator", conf=SparkConf().set("spark.ui.showConsoleProgress", "false"))
    for line in sys.stdin:
        stage = json.loads(line)
        answer = {}
        try:
            ended = spark.parallelize(stage["shards"], len(stage["shards"])).map(task(stage)).collect()
            answer["failed"] = [t for t in ended if t["code"] != 0]
        except Exception as e:  # tasks whose executors were lost again and again
            answer["error"] = next((l for l in str(e).splitlines() if "Exception: " in l), str(e)[:400])
        print(json.dumps(answer), flush=True)
    spark.stop()


main()
