"""The tour of client/README.md does what it says."""

import re
from pathlib import Path

from running import Attnd

ROOT = Path(__file__).resolve().parents[3]


def test_the_python_tour_runs(monkeypatch, capsys):
    text = (ROOT / "client" / "README.md").read_text()
    tour = text.split("## Five minutes in Python")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", tour, re.DOTALL)
    assert len(blocks) >= 5
    monkeypatch.chdir(ROOT)
    seen = {}
    with Attnd(ROOT / "client" / "examples" / "attnd.yaml") as server:
        for block in blocks:
            exec(block.replace("127.0.0.1:50051", server.target), seen)
    assert seen["answer"].output.shape == (100, 8)
    assert len(seen["answers"]) == 100 and len(seen["three"]) == 3
    assert seen["weekly"].notna().all()
    assert seen["series"][seen["scores"].abs() > 6].size < 20
    assert 'did you mean "rope"' in capsys.readouterr().out
