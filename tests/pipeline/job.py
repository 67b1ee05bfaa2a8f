"""python -m pipeline.job MASTER SCENARIO PLAN [SETTING=VALUE …]: scores a plan in a process of its own, and prints what
was counted. With KILL=PIDS in the environment, these processes are killed while Spark shuffles."""

import hashlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

from overstory.model.plan import read_plan
from overstory.model.scenario import read_scenario
from overstory.pipeline.pipeline import Pipeline


def main(master: str, scenario_folder: str, plan_folder: str, *settings: str) -> None:
    scenario, plan = read_scenario(Path(scenario_folder)), read_plan(Path(plan_folder))
    with Pipeline(master, dict(each.split("=", 1) for each in settings)) as pipeline:
        killed: list[int] = []
        if "KILL" in os.environ:
            pipeline.validate(scenario)
            threading.Thread(target=kill_while_shuffling, args=(pipeline, killed), daemon=True).start()
        card, traffic = pipeline.score(scenario, plan)
        digest = hashlib.sha256(traffic.frames.tobytes() + traffic.bytes.tobytes()).hexdigest()
        print(json.dumps({"cost": card.cost, "bound": card.lower_bound, "traffic": digest, "killed": killed}))


def kill_while_shuffling(pipeline: Pipeline, killed: list[int]) -> None:
    """Once the first stage has written what the second one reads, and while that one runs."""
    stages: set[int] = set()
    while True:
        tracker = pipeline.spark.sparkContext.statusTracker()
        stages |= set(tracker.getActiveStageIds())
        if any(stage > min(stages) and _started(tracker, stage) for stage in stages):
            for process in map(int, os.environ["KILL"].split(",")):
                os.kill(process, signal.SIGKILL)
                killed.append(process)
            return
        time.sleep(0.005)


def _started(tracker: object, stage: int) -> bool:
    about = tracker.getStageInfo(stage)  # type: ignore[attr-defined]
    return about is not None and about.numCompletedTasks + about.numActiveTasks > 0


if __name__ == "__main__":
    main(*sys.argv[1:])
