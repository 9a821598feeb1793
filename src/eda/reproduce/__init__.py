"""The paper's tables and figures from this code, with baselines in the same run, beside what the paper prints."""

from eda.reproduce.catalogue import EXPERIMENTS, experiment_kind, make_experiment
from eda.reproduce.comparison import Comparison, MeasuredRow
from eda.reproduce.experiment import Experiment, Findings
from eda.reproduce.plan import Command, PaperRun, Plan
from eda.reproduce.run import Request, execute, plan_of, reproduce
from eda.reproduce.workbench import Trial, Workbench

__all__ = [
    "EXPERIMENTS",
    "Command",
    "Comparison",
    "Experiment",
    "Findings",
    "MeasuredRow",
    "PaperRun",
    "Plan",
    "Request",
    "Trial",
    "Workbench",
    "execute",
    "experiment_kind",
    "make_experiment",
    "plan_of",
    "reproduce",
]
