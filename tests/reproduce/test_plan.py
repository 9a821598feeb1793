"""The paper's scale: commands that the command line takes, what is missing said before anything runs, and resuming."""

import json
import re
import subprocess
from dataclasses import replace

import pytest
import typer

from eda import InputError
from eda.cli import app
from eda.recipes import RECIPES
from eda.reproduce import EXPERIMENTS, Command, PaperRun, Plan, Request, execute
from eda.reproduce.comparison import PAIRWISE_COLUMNS

KINDS = {"kitti": ("pieces",), "breaking-bad": ("equivariance", "breaking-bad")}
KIND_OF = {name: next((kind for kind, names in KINDS.items() if name in names), "3dmatch") for name in EXPERIMENTS}


@pytest.fixture
def datasets(monkeypatch) -> list:
    """Every dataset is there, in every part; the list tells which parts were looked for."""
    asked = []
    monkeypatch.setattr(
        "eda.reproduce.plan.open_reader", lambda kind, path, **options: asked.append((kind, options)) or [0]
    )
    return asked


def plan_of(name: str, folder) -> Plan:
    return EXPERIMENTS[name]().plan(PaperRun(f"{KIND_OF[name]}:/data", folder, name, 3))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_plan_prepares_trains_and_measures(name, tmp_path, datasets):
    plan = plan_of(name, tmp_path)
    group = typer.main.get_command(app)
    made = set()
    for command in plan.commands:
        words = list(command.words)
        if words[0] == "torchrun":
            place = words.index("eda.cli") + 1
            assert words[:place] == ["torchrun", "--standalone", "--nproc-per-node", "3", "-m", "eda.cli"]
            words = ["eda", *words[place:]]
            assert words[2] in RECIPES
            made.add(f"{words[words.index('--out') + 1]}/model.safetensors")
        known = {option for each in group.commands[words[1]].params for option in (*each.opts, *each.secondary_opts)}
        assert {word for word in words if word.startswith("--")} <= known
        for model in re.findall(r"\S+/model\.safetensors", command.line):
            assert model in made, "a model is used before it is trained"
    assert datasets
    assert plan.script().startswith("#!/bin/sh\nset -e\neda prepare ")


def test_plans_share_what_they_prepare_and_train(tmp_path, datasets):
    """A folder or report is made by one command only, whichever plan comes first."""
    makers = {}
    for name in EXPERIMENTS:
        for command in plan_of(name, tmp_path).commands:
            words = command.words
            place = words[words.index("--out") + 1] if "--out" in words else command.report
            place = words[4] if words[1] == "prepare" else place
            if place is not None:
                assert makers.setdefault(str(place), words) == words
    trained = [place for place, words in makers.items() if "train" in words]
    assert len(trained) == 1 + 1 + 5 + 2  # Breaking Bad, pairs without overlap, the ablation's, KITTI's


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_settings_of_a_plan_are_those_of_recipes_and_readers(name, tmp_path, datasets):
    from eda.data.readers import options_of
    from eda.train import overridden

    for command in plan_of(name, tmp_path).commands:
        words = command.words
        changed = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
        if "train" in words:
            overridden(RECIPES[words[words.index("train") + 1]](), changed)
        elif words[1] == "prepare":
            assert {text.partition("=")[0] for text in changed} <= set(options_of(words[2]))
    for kind, options in datasets:
        assert set(options) <= set(options_of(kind))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_missing_data_are_named(name, tmp_path):
    kind = KIND_OF[name]
    with pytest.raises(InputError, match=f"needs the dataset itself, from .*--data {kind}:FOLDER"):
        EXPERIMENTS[name]().plan(PaperRun(None, tmp_path, name, 3))
    with pytest.raises(InputError, match="needs the dataset itself"):
        EXPERIMENTS[name]().plan(PaperRun("rooms:rooms=3", tmp_path, name, 3))
    with pytest.raises(InputError, match=f"{kind}:{tmp_path}.* cannot be read"):
        EXPERIMENTS[name]().plan(PaperRun(f"{kind}:{tmp_path}", tmp_path, name, 3))
    with pytest.raises(InputError, match="the paper's options are set here"):
        EXPERIMENTS[name]().plan(PaperRun(f"{kind}:/data,split=val", tmp_path, name, 3))


def report(rotation: float) -> str:
    errors = {"mean": rotation, "std_over_repeats": None}
    return json.dumps(
        {"puzzles": 4, "seconds_per_puzzle": 30.0, "metrics": {"rotation": errors, "translation": errors}}
    )


def test_a_training_that_diverges_is_a_result(tmp_path, monkeypatch):
    model, said = tmp_path / "run" / "model.safetensors", []
    train = Command(("torchrun", "-m", "eda.cli", "train", "--out", str(model.parent)), may_diverge=model.parent)
    measure = Command(("eda", "evaluate", "--model", str(model)), tmp_path / "it.json")
    plan = Plan([train, measure], PAIRWISE_COLUMNS, ("tab:ablation",), {("", "Eda-(r, h, e)"): tmp_path / "it.json"})
    model.parent.mkdir()
    log = model.parent / "log.jsonl"
    monkeypatch.setattr("eda.reproduce.plan.subprocess.run", lambda words: subprocess.CompletedProcess(words, 1))
    log.write_text('{"step": 9, "trouble": "loss nan"}\n' * 12 + '{"step": 9, "tro')  # the last line was cut off
    plan.execute(said.append)
    assert "did not converge" in said[-1]
    comparison = plan.comparison()
    assert comparison is not None
    assert comparison.table()[1][0][:2] == ["Eda-(r, h, e)", "did not converge"]
    log.write_text('{"step": 9, "trouble": "loss nan"}\n' * 8 + '{"step": 10, "loss": 1}\n')
    with pytest.raises(InputError, match="exit code 1"):  # it was stopped by something else
        plan.execute(said.append)


@pytest.mark.parametrize(("training", "expected"), [("false", ["end"]), ("true", ["RUN/model", "end"])])
def test_a_script_goes_on_where_a_training_that_may_diverge_fails(tmp_path, training, expected):
    run = tmp_path / "a run"
    learn = Command((training,), may_diverge=run)
    plan = Plan([learn, Command(("echo", f"{run}/model")), Command(("echo", "end")), Command(("false",))])
    done = subprocess.run(["sh", "-c", plan.script()], capture_output=True, text=True)
    assert done.stdout.replace(str(run), "RUN").splitlines() == expected
    assert ("was not trained" in done.stderr) == (training == "false")
    assert done.returncode == 1, "every other command has to succeed"


def test_the_script_of_the_ablation_tries_every_variant(tmp_path, datasets):
    lines = plan_of("ablation", tmp_path).script().splitlines()
    assert [line.split()[0] for line in lines] == ["#!/bin/sh", "set", "eda", "eda", *["{"] * 5]
    for line in lines[4:]:
        assert re.fullmatch(r"\{ torchrun .* && eda evaluate .*; \} \|\| echo .* >&2", line)


@pytest.mark.parametrize("changed", [{"steps": ("1", "two")}, {"steps": ("0",)}, {"solvers": ("rk1", "rk5")}])
def test_what_a_plan_sweeps_is_checked_first(changed, tmp_path, datasets):
    with pytest.raises(InputError, match=f"{next(iter(changed))} must be"):
        EXPERIMENTS["steps"](**changed).plan(PaperRun("3dmatch:/data", tmp_path, "steps", 3))
    assert not datasets


def test_what_is_done_is_not_done_again_and_the_table_has_what_was_measured(tmp_path, monkeypatch):
    reports = {("", system): tmp_path / f"{system}.json" for system in ("GLO", "LEV")}
    plan = Plan(
        [Command(("eda", "evaluate", "--json", str(path)), path) for path in reports.values()],
        {**PAIRWISE_COLUMNS, "minutes": "minutes"}, ("tab:BB",), reports,
    )  # fmt: skip
    ran, fail = [], [True]

    def run(arguments):
        ran.append(arguments)
        if arguments[-1] == str(reports["", "LEV"]) and fail:
            return subprocess.CompletedProcess(arguments, fail.pop() * 4)
        next(path for path in reports.values() if arguments[-1] == str(path)).write_text(report(len(ran)))
        return subprocess.CompletedProcess(arguments, 0)

    monkeypatch.setattr("eda.reproduce.plan.subprocess.run", run)
    request = Request("breaking-bad", {}, tmp_path / "out", "eda reproduce breaking-bad --scale paper")
    with pytest.raises(InputError, match=r"stopped at step 2 of 2: .*LEV.json.* \(exit code 4\)"):
        execute(request, plan, lambda line: None)
    assert not request.file("-paper.md").exists()
    execute(request, plan, lambda line: None)
    assert [arguments[-1] for arguments in ran] == [str(reports["", name]) for name in ("GLO", "LEV", "LEV")]
    assert ran[0][1:3] == ["-m", "eda.cli"]
    page = request.file("-paper.md").read_text()
    assert "| GLO | 4 | 1 | 126.3 | 1 | 0.3 | 2 | 0.9 |" in page
    assert "| JIG |  |  | 106.5 |  | 0.24 |  | 122.2 |" in page
    assert replace(plan, reports=None).comparison() is None
