"""Judging a model: does it keep the laws it is built on?"""

from eda.evaluate.equivariance import EquivarianceReport, LawResult, check_equivariance

__all__ = ["EquivarianceReport", "LawResult", "check_equivariance"]
