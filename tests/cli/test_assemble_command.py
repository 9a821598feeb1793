"""`eda assemble`, from files to a folder: its options, its exit codes, and what an interruption leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.broken_stone import stone
from support.rigid_motions import rigid_motions, transform_points
from typer.testing import CliRunner

from eda import InputError, load
from eda.assembly import rank, read_pin
from eda.budget import Stage
from eda.cli import app, main
from eda.cli.stages import PAIRWISE, STAGE_ENDS, overall_share
from eda.output.result_files import PictureSizes

QUICK = ("--samples", "2", "--steps", "2", "--solver", "rk1")


def run(*words: object):
    return CliRunner().invoke(app, ["assemble", *map(str, words)])


@pytest.fixture(scope="module")
def meshes(tmp_path_factory) -> Path:
    """The pieces of a broken stone as meshes, as `eda fracture` writes them."""
    folder = tmp_path_factory.mktemp("stone") / "broken"
    words = ["fracture", str(folder), "--puzzles", "1", "--shapes", "stone", "--pieces", "2-2", "--as", "meshes"]
    assert CliRunner().invoke(app, [*words, "--seed", "3", "--workers", "1", "--quiet"]).exit_code == 0
    return next(p for p in folder.iterdir() if p.is_dir())


@pytest.fixture(scope="module")
def clouds(tmp_path_factory) -> Path:
    """Two pieces of a stone as text files of points, without normals."""
    folder = tmp_path_factory.mktemp("clouds")
    for i, cloud in enumerate(stone(2, 2400).clouds()):
        np.savetxt(folder / f"sherd={i}.xyz", 10 * cloud)
    return folder


@pytest.fixture(autouse=True)
def small_pictures(monkeypatch):
    """Pictures take longest, and other tests look at them."""
    small = PictureSizes(preview=60, frame=40, frames=2, last_frames=1)
    monkeypatch.setattr("eda.output.result_files.PictureSizes", lambda: small)


def test_the_command_puts_files_together(meshes, tmp_path):
    words = ("--samples", 8, "--steps", 10, "--solver", "rk1", "--in-place")
    done = run(meshes, "-o", tmp_path / "out", *words)
    assert done.exit_code == 0, done.output
    assert "2 of 2 pieces placed" in done.output
    assert "against the truth" in done.output
    assert "model fracture-small (closed surfaces" in done.output
    assert (tmp_path / "out" / "report.html").is_file()


def test_the_folder_is_named_as_it_is(clouds, tmp_path):
    """Brackets are no markup, and a long path is not broken."""
    out = tmp_path / f"pot [bold] [x] {'long ' * 20}"
    done = run(clouds, "-o", out, *QUICK, "--no-refine")
    assert done.exit_code == 0, done.output
    assert f"open {out / 'report.html'}\n" in done.output


def test_pins_are_kept_in_what_is_written(clouds, tmp_path):
    """One pin as a matrix, the other from a result; names with the sign that separates them from the file."""
    import trimesh

    known = rigid_motions(np.eye(3)[None], np.array([[100.0, 20, -3]]))[0]
    (tmp_path / "pose.json").write_text(json.dumps(known.tolist()))
    first, second = tmp_path / "first", tmp_path / "second"
    done = run(clouds, "-o", first, "--pin", f"sherd=0={tmp_path / 'pose.json'}", *QUICK, "--no-refine", "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record == json.loads((first / "assembly.json").read_text())
    assert record["pinned"] == ["sherd=0"]
    assert record["settings"] == {
        "samples": 2, "steps": 2, "rounds": 1, "solver": "rk1", "seed": 0, "time_limit": None, "refine": False,
    }  # fmt: skip
    poses = [np.array(piece["pose"]) for piece in record["alternatives"][0]["pieces"]]
    np.testing.assert_array_equal(poses[0], known)
    written = trimesh.load(first / "pieces" / "sherd=0.ply").vertices
    np.testing.assert_allclose(written, transform_points(known, np.loadtxt(clouds / "sherd=0.xyz")), atol=1e-5)
    pins = [word for i in (0, 1) for word in ("--pin", f"sherd={i}={first / 'assembly.json'}")]
    done = run(clouds, "-o", second, *pins, *QUICK, "--seed", 5, "--time-limit", 600)
    assert done.exit_code == 0, done.output
    assert "pinned" in done.output
    again = json.loads((second / "assembly.json").read_text())
    for pose, piece in zip(poses, again["alternatives"][0]["pieces"], strict=True):
        np.testing.assert_allclose(piece["pose"], pose, atol=1e-12)


def test_files_of_alternatives_are_written_as_far_as_wanted(clouds, tmp_path):
    """Samples that are not refined are alternatives, unless they are alike."""
    for name, words in (("all", ()), ("none", ("--alternative-megabytes", 0))):
        done = run(clouds, "-o", tmp_path / name, *QUICK, "--samples", 8, "--steps", 1, "--no-refine", *words)
        assert done.exit_code == 0, done.output
        record = json.loads((tmp_path / name / "assembly.json").read_text())
        assert len(record["alternatives"]) > 1
        written = [piece["file"] for piece in record["alternatives"][1]["pieces"]]
        assert all((tmp_path / name / file).is_file() for file in written if file)
        assert [file is not None for file in written] == [name == "all"] * 2


@pytest.mark.parametrize("rows", [3, 4])
def test_a_pose_may_have_three_rows_or_four(tmp_path, rows):
    known = rigid_motions(np.eye(3)[None], np.array([[100.0, 20, -3]]))[0]
    (tmp_path / "pose.json").write_text(json.dumps(known[:rows].tolist()))
    np.testing.assert_array_equal(read_pin(tmp_path / "pose.json", "rim"), known)


def test_a_result_that_ran_out_of_time_says_so(clouds, tmp_path):
    done = run(clouds, "-o", tmp_path / "out", *QUICK, "--time-limit", 0.01)
    assert done.exit_code in (0, 3), done.output
    assert "Stopped at the time limit" in done.output
    assert json.loads((tmp_path / "out" / "assembly.json").read_text())["stopped"] is True


def test_a_model_without_a_calibration_is_said_to_have_none(clouds, tmp_path):
    model = load("fracture-small")
    model.calibrations = None
    model.save(tmp_path / "own.safetensors")
    done = run(clouds, "-o", tmp_path / "out", *QUICK, "--no-refine", "--model", tmp_path / "own.safetensors")
    assert done.exit_code == 0, done.output
    said = "The probabilities are not calibrated for this model"
    assert said in " ".join(done.output.split())
    assert said in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "out" / "assembly.json").read_text())["calibrated"] is False


def test_bad_pins_are_told_apart(clouds, tmp_path):
    (tmp_path / "pose.json").write_text("[[1, 0], [0, 1]]")
    (tmp_path / "other.json").write_text(json.dumps({"alternatives": [{"pieces": [{"name": "lid", "pose": None}]}]}))
    for words, message in (
        (["lid=pose.json"], "one of the pieces sherd=0, sherd=1"),
        (["sherd=0"], "expected PIECE=POSE.json"),
        ([f"sherd=0={tmp_path / 'none.json'}"], "none.json"),
        ([f"sherd=0={tmp_path / 'pose.json'}"], "4x4"),
        ([f"sherd=0={tmp_path / 'other.json'}"], "not one with a piece 'sherd=0'"),
    ):
        done = run(clouds, "-o", tmp_path / "out", *[w for word in words for w in ("--pin", word)])
        assert isinstance(done.exception, InputError), words
        assert message in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_bad_input_writes_nothing(meshes, tmp_path):
    out = tmp_path / "out"
    for words in (
        [meshes / "piece_000.ply"],
        [tmp_path / "nowhere"],
        [meshes, "--model", "no such"],
        [meshes, "--solver", "rk9"],
        [meshes, "--device", "toaster"],
        [meshes, "--device", "meta"],
        [meshes, "--device", "privateuseone"],
        [meshes, "--time-limit", "-1"],
    ):
        assert isinstance(run(*words, "-o", out).exception, InputError), words
        assert not out.exists()
    assert list(tmp_path.iterdir()) == [], "not even a hidden folder is left"


def test_in_a_log_an_error_is_one_line_and_the_bar_leaves_nothing(meshes, tmp_path, monkeypatch, capsys):
    (tmp_path / "bad.obj").write_text("no mesh")
    words = ["eda", "assemble", meshes, tmp_path / "bad.obj", "-o", tmp_path / "out"]
    monkeypatch.setattr(sys, "argv", [*map(str, words)])
    with pytest.raises(SystemExit, match="2"):
        main()
    said = capsys.readouterr().err
    assert said.startswith(f"eda: {tmp_path / 'bad.obj'}: ")
    assert said.count("\n") == 1


def test_what_lies_in_the_folder_is_replaced_only_on_demand(clouds, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "assembly.json").write_text("old")
    (out / "notes.txt").write_text("mine")
    for words in ([], ["--overwrite"]):
        assert isinstance(run(clouds, "-o", out, *QUICK, "--no-refine", *words).exception, InputError)
        assert (out / "notes.txt").exists()
    (out / "notes.txt").unlink()
    assert run(clouds, "-o", out, *QUICK, "--no-refine", "--overwrite", "--quiet").stdout == ""
    assert json.loads((out / "assembly.json").read_text())["schema"] == 1
    assert list(tmp_path.iterdir()) == [out]


def test_where_nothing_can_be_placed_the_exit_code_is_3(clouds, tmp_path, monkeypatch):
    def hopeless(*arguments, **options):
        return [replace(c, placed=np.zeros_like(c.placed)) for c in rank(*arguments, **options)]

    monkeypatch.setattr(sys.modules["eda.assembly.assemble"], "rank", hopeless)
    done = run(clouds, "-o", tmp_path / "out", *QUICK, "--no-refine")
    assert done.exit_code == 3, done.output
    record = json.loads((tmp_path / "out" / "assembly.json").read_text())
    assert record["alternatives"][0]["unplaced"] == ["sherd=0", "sherd=1"]


# -- interrupted -------------------------------------------------------------------------------------------------------


def test_an_interruption_while_writing_leaves_what_was_there(clouds, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "assembly.json").write_text("old")
    (out / "preview.png").write_text("old")

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("eda.output.report.write_report", interrupted)
    assert run(clouds, "-o", out, *QUICK, "--no-refine", "--overwrite").exit_code == 130
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert sorted(p.name for p in out.iterdir()) == ["assembly.json", "preview.png"]


def test_an_interruption_between_the_old_result_and_the_new_one_leaves_the_old_one(clouds, tmp_path, monkeypatch):
    out = tmp_path / "out"
    out.mkdir()
    (out / "assembly.json").write_text("old")
    (out / "preview.png").write_text("old")
    once = []

    def interrupted(new, place):
        once.append(place)
        raise KeyboardInterrupt

    monkeypatch.setattr("eda.output.folder_swap._exchange", interrupted)
    assert run(clouds, "-o", out, *QUICK, "--no-refine", "--overwrite").exit_code == 130
    assert once == [out], "it came that far"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert {p.name: p.read_text() for p in out.iterdir()} == {"assembly.json": "old", "preview.png": "old"}


WAITING = """
import os, pathlib, time
import eda.assembly
from eda.cli import main

folder, assemble = pathlib.Path(os.environ["WAIT_IN"]), eda.assembly.assemble

def waiting(*given, **named):
    (folder / "begun").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)
    return assemble(*given, **named)

eda.assembly.assemble = waiting
main()
"""


@pytest.fixture
def begin(tmp_path):
    """Starts a command that waits, before it assembles, for a file `go` in a folder; it has begun when this returns."""
    folder, commands = tmp_path / "wait", []
    folder.mkdir()

    def start(*words: object) -> subprocess.Popen:
        command = subprocess.Popen(
            [sys.executable, "-c", WAITING, "assemble", *map(str, words)],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "WAIT_IN": str(folder)},
            # What runs in the background of a shell ignores this signal, and so would its children.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        commands.append(command)
        while not (folder / "begun").exists() and command.poll() is None:
            time.sleep(0.05)
        return command

    yield start
    for command in commands:
        command.kill()
        command.communicate()


def test_an_interruption_by_the_user_leaves_nothing(clouds, tmp_path, begin):
    command = begin(clouds, "-o", tmp_path / "out", *QUICK)
    command.send_signal(signal.SIGINT)
    output, errors = command.communicate(timeout=120)
    assert command.returncode == 130, errors
    assert errors == b"eda: interrupted\n"
    assert output == b""
    assert [p.name for p in tmp_path.iterdir()] == ["wait"]


SLOW_TO_WRITE = """
import time
import eda.output.report
from eda.cli import main

def never(path, scene):
    (path.parent.parent.parent / "writing").touch()
    time.sleep(600)

eda.output.report.write_report = never
main()
"""


def test_termination_while_writing_leaves_nothing(clouds, tmp_path):
    words = ["assemble", clouds, "-o", tmp_path / "out", *QUICK, "--no-refine"]
    command = subprocess.Popen([sys.executable, "-c", SLOW_TO_WRITE, *map(str, words)], stderr=subprocess.PIPE)
    try:
        while not (tmp_path / "writing").exists() and command.poll() is None:
            time.sleep(0.05)
        command.terminate()
        _, errors = command.communicate(timeout=120)
    finally:
        command.kill()
    assert command.returncode == 128 + signal.SIGTERM, errors
    assert errors.splitlines()[-1] == b"eda: terminated"
    assert b"Traceback" not in errors
    assert [p.name for p in tmp_path.iterdir()] == ["writing"]


def test_of_three_commands_at_once_one_wins_and_the_others_say_so(clouds, tmp_path, begin):
    out = tmp_path / "out"
    words = [clouds, "-o", out, *QUICK, "--no-refine", "--overwrite"]
    first = begin(*words)
    for _ in range(2):
        command = [sys.executable, "-m", "eda.cli", "assemble", *map(str, words)]
        other = subprocess.run(command, capture_output=True, text=True, check=False)
        assert other.returncode == 2
        assert other.stderr.startswith(f"eda: {out}: another process ({first.pid}) is writing there")
        assert other.stderr.count("\n") == 1
    assert not out.exists()
    (tmp_path / "wait" / "go").touch()
    _, errors = first.communicate(timeout=240)
    assert first.returncode == 0, errors
    assert json.loads((out / "assembly.json").read_text())["pieces"] == ["sherd=0", "sherd=1"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "wait"]


# -- beside it ---------------------------------------------------------------------------------------------------------


MANY_SCANS = [Stage.READ, Stage.DOWNSAMPLE, *PAIRWISE, Stage.WRITE]
AT_ONCE = [stage for stage in Stage if stage not in PAIRWISE]


@pytest.mark.parametrize("way", [AT_ONCE, MANY_SCANS], ids=["at once", "many scans"])
def test_progress_only_goes_forward(way):
    shares = [overall_share(stage, share) for stage in way for share in (0, 0.5, 1)]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == 1
    assert [overall_share(stage, 1) for stage in way] == sorted({STAGE_ENDS[stage] for stage in way})


def test_the_terminal_knows_every_stage_in_order():
    assert list(STAGE_ENDS) == list(Stage)


def test_models_are_listed():
    listed = CliRunner().invoke(app, ["models"])
    assert listed.exit_code == 0
    assert "fracture-small" in listed.output
