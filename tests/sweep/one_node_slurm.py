"""A real Slurm of one node, in namespaces of its own: it sees no network but its own loopback."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NEEDED = ("unshare", "nsenter", "ip", "setpriv", "munged", "slurmctld", "slurmd", "sbatch")
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo")
LARGEST_ARRAY = 21
"""Small, so that a sweep of some more stacks needs several arrays."""

CONFIGURATION = """
ClusterName=one
SlurmctldHost=node0
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MpiDefault=none
StateSaveLocation={home}/state
SlurmdSpoolDir={home}/spool
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={home}/slurmctld.log
SlurmdLogFile={home}/slurmd.log
MaxArraySize={largest}
NodeName=node0 CPUs=2
PartitionName=debug Nodes=node0 Default=YES MaxTime=INFINITE State=UP
PartitionName=other Nodes=node0 Default=NO MaxTime=INFINITE State=UP
"""
# 127.0.0.1 is not accepted as a node's address, so the loopback gets one more, which only this namespace knows.
START = """
set -e
ip link set lo up
ip addr add 10.99.0.1/32 dev lo
hostname node0
printf '127.0.0.1 localhost\\n10.99.0.1 node0\\n' > hosts
mount --bind hosts /etc/hosts
mount -t tmpfs tmpfs /run
mkdir -p /run/munge spool state
head -c 1024 /dev/urandom > /run/munge.key
chown munge:munge /run/munge /run/munge.key
chmod 400 /run/munge.key
setpriv --reuid munge --regid munge --clear-groups munged --force --key-file /run/munge.key \
    --pid-file /run/munge/pid --log-file /run/munge/log --seed-file /run/munge/seed
slurmctld -i
slurmd
touch ready
exec sleep infinity
"""


def reason_to_skip() -> str | None:
    """Returns why there can be no Slurm here; None if there can."""
    if os.getuid() != 0:
        return "a Slurm of its own needs root"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    return f"{', '.join(absent)} not installed" if absent else None


@contextmanager
def one_node_slurm(home: Path) -> Iterator[Path]:
    """Runs Slurm until the context is left; yields a directory with its commands, for the PATH."""
    (home / "slurm.conf").write_text(CONFIGURATION.format(home=home, largest=LARGEST_ARRAY))
    (home / "start").write_text(START)
    outer = subprocess.Popen(
        ["unshare", "-m", "-p", "-u", "-n", "-f", "--mount-proc", "--kill-child", "bash", "start"],
        cwd=home,
        env={**os.environ, "SLURM_CONF": str(home / "slurm.conf")},
    )
    try:
        deadline = time.monotonic() + 60
        while not (home / "ready").exists():
            assert outer.poll() is None and time.monotonic() < deadline, "Slurm did not start"
            time.sleep(0.05)
        inner = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0]
        commands = home / "bin"
        commands.mkdir()
        for name in COMMANDS:
            (commands / name).write_text(
                f"#!/bin/sh\nSLURM_CONF={home}/slurm.conf exec nsenter -t {inner} -m -u -n -p "
                f'--wd="$PWD" {shutil.which(name)} "$@"\n'
            )
            (commands / name).chmod(0o755)
        while "idle" not in subprocess.run([commands / "sinfo"], capture_output=True, text=True, check=False).stdout:
            assert time.monotonic() < deadline, "the node did not come up"
            time.sleep(0.1)
        yield commands
    finally:
        outer.kill()  # takes everything in its namespaces along
        outer.wait()
