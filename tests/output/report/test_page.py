"""The page of a report: foreign text stays text, nothing is fetched, and it is written completely or not at all."""

import base64
import hashlib
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
from support.reports import HOSTILE, alternative_of, page_data, random_poses, report_of

from eda.output.report import ReportPiece, render_report, write_report


class Outside(HTMLParser):
    """Finds the scripts of a page, every address in it, and its title."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts, self.addresses, self.policy, self.title, self.open = [], [], "", "", ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.open = tag if tag in ("script", "title") and given.get("type") is None else ""
        self.addresses += [given[name] for name in ("src", "href") if name in given]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]

    def handle_endtag(self, tag):
        self.open = ""

    def handle_data(self, data):
        if self.open == "script":
            self.scripts.append(data)
        if self.open == "title":
            self.title += data


def test_hostile_text_adds_no_markup_and_is_told_unchanged():
    plain = report_of(command="eda", facts={"a": "b"})
    hostile = replace(
        plain,
        title=HOSTILE,
        command=HOSTILE,
        facts={HOSTILE: HOSTILE},
        pieces=[replace(piece, name=HOSTILE) for piece in plain.pieces],
    )
    page = render_report(hostile)
    seen, told = Outside(page), page_data(page)
    assert seen.scripts == Outside(render_report(plain)).scripts
    assert seen.addresses == ["data:,"]
    assert seen.title == HOSTILE.replace("\udc80", "\ufffd")
    assert told["title"] == told["command"] == told["pieces"][0]["name"] == HOSTILE
    assert told["facts"] == [[HOSTILE, HOSTILE]]


def test_only_the_scripts_of_the_page_may_run_and_nothing_may_be_fetched():
    seen = Outside(render_report(report_of()))
    rules = dict(rule.split(" ", 1) for rule in seen.policy.split("; "))
    allowed = {base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in seen.scripts}
    assert {word[len("'sha256-") : -1] for word in rules["script-src"].split()} == allowed
    assert len(allowed) == len(seen.scripts) > 0
    assert rules["default-src"] == "'none'"
    assert set(rules) == {"default-src", "img-src", "style-src", "script-src"}
    assert rules["img-src"] == "data:"


def test_ten_pieces_of_5000_points_stay_below_1_5_megabytes():
    """The clouds need no shape for that."""
    rng = np.random.default_rng(0)
    pieces = [ReportPiece(f"{i}", rng.normal(size=(5000, 3)), rng.normal(size=(5000, 3))) for i in range(10)]
    alternatives = [alternative_of(random_poses(10, seed=k)) for k in range(4)]
    report = report_of(pieces=pieces, alternatives=alternatives, flow=random_poses(20, 10, seed=9))
    assert len(render_report(report).encode()) < 1_500_000


def test_a_report_is_written_whole(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    report = report_of(title="Gefäß 7")
    write_report(path, report)
    assert path.read_bytes().decode() == render_report(report)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
