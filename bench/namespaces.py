"""Processes of dptrain over the TCP transport, each on a host of its own: a network namespace of this machine
(scripts/hosts.bash: root and iproute2), connected to the others through two switches with a link between them.
Nothing outside of these namespaces changes, and they are removed when the program ends, whatever way it ends."""

import os
import subprocess

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), ".."))

# The shell removes the namespaces when the pipe closes: the kernel closes the pipe of a program that was killed.
SHELL = """
set -eu
. "$0/scripts/hosts.bash"
hosts_able || { echo "$hosts_why"; exit 1; }
hosts_up "$1" >&2
ip -n "$hosts_name-switch" link add other type bridge
ip -n "$hosts_name-switch" link set other up
ip -n "$hosts_name-switch" link add trunk type veth peer name knurt
ip -n "$hosts_name-switch" link set trunk master bridge
ip -n "$hosts_name-switch" link set knurt master other
ip -n "$hosts_name-switch" link set trunk up
ip -n "$hosts_name-switch" link set knurt up
echo "up $hosts_name"
trap '' INT TERM
read -r _ || true
"""


class Network:
    """Hosts 0 to n - 1, at one switch.  For `with`."""

    def __init__(self, n):
        self.n = n

    def __enter__(self):
        self.shell = subprocess.Popen(
            ["bash", "-c", SHELL, ROOT, str(self.n)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        words = self.shell.stdout.readline().split(maxsplit=1)
        if len(words) != 2 or words[0] != "up":
            self.__exit__()
            raise SystemExit(f"no hosts: {' '.join(words)}")
        self.name = words[1].strip()
        return self

    def __exit__(self, *_):
        self.shell.stdin.close()
        self.shell.wait()

    def command(self, host, command):
        return ["ip", "netns", "exec", f"{self.name}-{host + 1}", *command]

    def switch(self, *words):
        subprocess.run(["ip", "-n", f"{self.name}-switch", "link", "set", *words], check=True)

    def divide(self, others):
        """Connects these hosts to the other switch, all other hosts to the first one."""
        for host in range(self.n):
            self.switch(f"port{host + 1}", "master", "other" if host in others else "bridge")

    def cut(self):
        """Takes down the link between the switches."""
        self.switch("trunk", "down")

    def heal(self):
        self.switch("trunk", "up")


class Job:
    """One training.  Process i runs on host i, in the folder folders[i]."""

    port = 29500

    def __init__(self, network, command, folders, settings=None):
        Job.port = 29500 + (Job.port + 1 - 29500) % 1000  # connections of the last job may linger
        secret = os.path.join(folders[0], "secret")
        if not os.path.exists(secret):
            with open(os.open(secret, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                file.write(os.urandom(32))
        known = {
            "DPTRAIN_ADDRESS": f"10.77.0.1:{Job.port}",
            "DPTRAIN_NETWORKS": "10.77.0.0/24",
            "DPTRAIN_SECRET_FILE": secret,
            "DPTRAIN_PROCESSES": str(len(folders)),
            **(settings or {}),
        }
        self.folders, self.processes = folders, []
        for rank, folder in enumerate(folders):
            with open(self.errors_of(rank), "w") as errors:
                self.processes.append(
                    subprocess.Popen(
                        network.command(rank, command),
                        cwd=folder,
                        env={**os.environ, **known, "DPTRAIN_RANK": str(rank)},
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=errors,
                    )
                )

    def errors_of(self, rank):
        return os.path.join(self.folders[rank], f"errors.{rank}")

    def ranks(self):
        """The numbers of the processes that have not ended, by rank.  `ip` becomes the command that it starts."""
        return {rank: p.pid for rank, p in enumerate(self.processes) if p.poll() is None}

    def runs(self):
        return bool(self.ranks())

    def send(self, rank, signal):
        self.processes[rank].send_signal(signal)

    def wait(self, seconds):
        """Waits for all.  Returns whether they have ended; those that have not are killed."""
        ended = True
        for p in self.processes:
            try:
                p.wait(timeout=seconds if ended else 0.1)
            except subprocess.TimeoutExpired:
                ended = False
        for p in self.processes:
            if p.poll() is None:
                p.kill()
                p.wait()
        return ended

    def statuses(self):
        return [p.returncode for p in self.processes]

    def words(self, rank):
        with open(self.errors_of(rank)) as file:
            return file.read()
