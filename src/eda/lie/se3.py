"""SE(3): rigid motions x -> R x + t, and their twists (w, t) of shape (..., 6).

exp and log are those of SE(3) (a screw: rotation and translation at once), not those of SO(3) x R^3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from eda.errors import InputError
from eda.lie import so3
from eda.lie.precision import full_precision


@dataclass(frozen=True)
class SE3:
    """A batch of rigid motions. `g @ h` composes, `g.act(x)` moves points, `g[i]` and `g.shape` refer to the batch.

    The twist f of a velocity dg/dtau = f g is *spatial*: it belongs to the identity and multiplies from the left,
    as in eq. (4) of the paper.
    """

    rotation: Tensor  # (..., 3, 3)
    translation: Tensor  # (..., 3)

    def __post_init__(self) -> None:
        rotation, translation = self.rotation, self.translation
        if rotation.shape[-2:] != (3, 3) or translation.shape != rotation.shape[:-1]:
            raise InputError(
                f"a pose needs a rotation (..., 3, 3) and a translation (..., 3) of the same batch, "
                f"got {tuple(rotation.shape)} and {tuple(translation.shape)}"
            )
        if rotation.dtype != translation.dtype or rotation.device != translation.device:
            raise InputError(
                f"rotation and translation of a pose must share dtype and device, got {rotation.dtype} on "
                f"{rotation.device} and {translation.dtype} on {translation.device}"
            )

    # -- making one ------------------------------------------------------------------------------------------------

    @staticmethod
    def identity(*shape: int, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None) -> SE3:
        """A batch of identities of this shape."""
        rotation = torch.eye(3, dtype=dtype, device=device).expand(*shape, 3, 3)
        return SE3(rotation, torch.zeros(*shape, 3, dtype=dtype, device=device))

    @staticmethod
    @full_precision
    def exp(twist: Tensor) -> SE3:
        """The motion after unit time at the constant spatial velocity `twist`. (..., 6) -> (...)."""
        if twist.shape[-1] != 6:
            raise InputError(f"a twist has 6 components (w, t), got shape {tuple(twist.shape)}")
        w, t = twist[..., :3], twist[..., 3:]
        rotation, jacobian = so3.exp_and_left_jacobian(w)
        return SE3(rotation, (jacobian @ t[..., None]).squeeze(-1))

    @staticmethod
    def from_matrix(matrix: Tensor) -> SE3:
        """The motions of homogeneous matrices (..., 4, 4) or of their upper rows (..., 3, 4)."""
        if matrix.shape[-2:] not in [(4, 4), (3, 4)]:
            raise InputError(f"expected matrices (..., 4, 4) or (..., 3, 4), got shape {tuple(matrix.shape)}")
        return SE3(matrix[..., :3, :3], matrix[..., :3, 3])

    @staticmethod
    def stack(motions: list[SE3], dim: int = 0) -> SE3:
        """The motions along a new batch dimension (dim >= 0 counts batch dimensions)."""
        return SE3(
            torch.stack([g.rotation for g in motions], dim),
            torch.stack([g.translation for g in motions], dim),
        )

    @staticmethod
    def cat(motions: list[SE3]) -> SE3:
        """The motions concatenated along the first batch dimension."""
        return SE3(torch.cat([g.rotation for g in motions]), torch.cat([g.translation for g in motions]))

    def where(self, condition: Tensor, other: SE3) -> SE3:
        """These motions where the condition (of the batch shape) holds, the others elsewhere."""
        return SE3(
            torch.where(condition[..., None, None], self.rotation, other.rotation),
            torch.where(condition[..., None], self.translation, other.translation),
        )

    # -- the group -------------------------------------------------------------------------------------------------

    @full_precision
    def log(self) -> Tensor:
        """The twist with the smallest angle whose exponential is this motion. -> (..., 6)."""
        w = so3.log(self.rotation)
        t = so3.inverse_left_jacobian(w) @ self.translation[..., None]
        return torch.cat([w, t.squeeze(-1)], dim=-1)

    @full_precision
    def inverse(self) -> SE3:
        """g^-1, the motion back."""
        back = self.rotation.mT
        return SE3(back, -(back @ self.translation[..., None]).squeeze(-1))

    @full_precision
    def __matmul__(self, other: SE3) -> SE3:
        return SE3(self.rotation @ other.rotation, self.act(other.translation))

    @full_precision
    def act(self, points: Tensor) -> Tensor:
        """g x for points (..., 3) whose batch shape broadcasts with this one's."""
        return (self.rotation @ points[..., None]).squeeze(-1) + self.translation

    @full_precision
    def adjoint(self, twist: Tensor) -> Tensor:
        """Ad_g xi, the twist with exp(Ad_g xi) = g exp(xi) g^-1. (..., 6) -> (..., 6)."""
        w = (self.rotation @ twist[..., :3, None]).squeeze(-1)
        t = (self.rotation @ twist[..., 3:, None]).squeeze(-1)
        return torch.cat([w, t + torch.linalg.cross(self.translation, w)], dim=-1)

    def polish(self) -> SE3:
        """The same motion with rounding errors removed from its rotation."""
        return SE3(so3.polish(self.rotation), self.translation)

    def matrix(self) -> Tensor:
        """Homogeneous matrices (..., 4, 4)."""
        upper = torch.cat([self.rotation, self.translation[..., None]], dim=-1)
        last = upper.new_tensor([0.0, 0.0, 0.0, 1.0]).expand(*self.shape, 1, 4)
        return torch.cat([upper, last], dim=-2)

    # -- the batch -------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> torch.Size:
        """The batch shape."""
        return self.translation.shape[:-1]

    def __len__(self) -> int:
        return self.translation.shape[0]

    def __getitem__(self, index: Any) -> SE3:
        index = index if isinstance(index, tuple) else (index,)
        whole = slice(None)
        return SE3(self.rotation[(*index, whole, whole)], self.translation[(*index, whole)])

    def reshape(self, *shape: int) -> SE3:
        """The same motions in another batch shape."""
        return SE3(self.rotation.reshape(*shape, 3, 3), self.translation.reshape(*shape, 3))

    def to(self, *args: Any, **kwargs: Any) -> SE3:
        """The same motions in another dtype or on another device, as `Tensor.to`."""
        return SE3(self.rotation.to(*args, **kwargs), self.translation.to(*args, **kwargs))

    def isfinite(self) -> bool:
        """Whether all entries are finite."""
        return bool(self.rotation.isfinite().all() and self.translation.isfinite().all())


@full_precision
def bracket(a: Tensor, b: Tensor) -> Tensor:
    """The Lie bracket [a, b] of twists. (..., 6) x (..., 6) -> (..., 6)."""
    w = torch.linalg.cross(a[..., :3], b[..., :3])
    t = torch.linalg.cross(a[..., :3], b[..., 3:]) - torch.linalg.cross(b[..., :3], a[..., 3:])
    return torch.cat([w, t], dim=-1)
