"""Real attnd and Prometheus processes, on free ports, in temporary folders."""
import json
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

PATIENCE_SECONDS = 60


class Process:
    """A child whose log is read to its end, so that it never blocks."""

    def __init__(self, arguments, ready, log_path=None):
        """Waits for a log line that the pattern `ready` matches."""
        self.arguments = arguments
        self.match = None
        self.log = []
        self._found = threading.Event()
        self._file = open(log_path, "w", buffering=1) if log_path else None
        self.child = subprocess.Popen(
            arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, errors="replace")
        self._reader = threading.Thread(
            target=self._read, args=(re.compile(ready),), daemon=True)
        self._reader.start()
        if not self._found.wait(PATIENCE_SECONDS) or self.match is None:
            self.kill()
            raise RuntimeError(f"{arguments[0]} does not start:\n"
                               + "".join(self.log[-20:]))

    def _read(self, ready):
        for line in self.child.stderr:
            if self._file:
                self._file.write(line)
            if self.match is None:
                self.log.append(line)
                self.match = ready.search(line)
                if self.match:
                    self._found.set()
        self._found.set()
        if self._file:
            self._file.close()

    @property
    def pid(self):
        return self.child.pid

    def running(self):
        return self.child.poll() is None

    def terminate(self):
        if self.running():
            self.child.send_signal(signal.SIGTERM)

    def kill(self):
        if self.running():
            self.child.kill()
        self.wait()

    def wait(self):
        """Its exit code."""
        code = self.child.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        return code


class Attnd(Process):
    """One attnd; `config` is a dictionary in the form of the YAML file."""

    def __init__(self, program, folder, name, config, arguments=()):
        path = pathlib.Path(folder) / f"{name}.yaml"
        path.write_text(json.dumps(config))
        super().__init__([program, "--config", str(path), *arguments],
                         r'"event":"listening","grpc":"([^"]+)".*"admin":"([^"]+)"',
                         pathlib.Path(folder) / f"{name}.log")
        self.name = name
        self.grpc, self.admin = self.match.groups()

    def series_text(self):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=10) as page:
            return page.read().decode()


class Prometheus(Process):
    """One Prometheus; `config` as its YAML file, as a dictionary."""

    def __init__(self, folder, config):
        folder = pathlib.Path(folder)
        (folder / "prometheus.yml").write_text(json.dumps(config))
        super().__init__(
            ["prometheus", f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/prometheus-data",
             "--web.listen-address=127.0.0.1:0", "--query.lookback-delta=1m"],
            r'msg="Listening on" address=(\S+)', folder / "prometheus.log")
        self.address = self.match.group(1)
        eventually(self._ready, "Prometheus is ready")

    def _ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=10):
                return True
        except urllib.error.URLError:
            return False

    def ask(self, path, **parameters):
        """The data of an answer; ValueError when it is an error."""
        url = f"http://{self.address}/api/v1/{path}?" + urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(url, timeout=10) as page:
                answer = json.load(page)
        except urllib.error.HTTPError as error:
            answer = json.load(error)
        if answer["status"] != "success":
            raise ValueError(f"{parameters}: {answer['error']}")
        return answer["data"]

    def vector(self, query):
        """[(labels, value)] of an instant query."""
        return [(sample["metric"], float(sample["value"][1]))
                for sample in self.ask("query", query=query)["result"]]

    def matrix(self, query, start, end, step):
        """[(labels, [(time, value)])] of a range query."""
        result = self.ask("query_range", query=query, start=start, end=end,
                          step=step)["result"]
        return [(series["metric"], [(t, float(v)) for t, v in series["values"]])
                for series in result]


def eventually(condition, what):
    """Waits until `condition()` is true, and gives its value."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise RuntimeError("waited in vain until " + what)
        time.sleep(0.1)
