"""What all planned requests have in common: a price, and a stored release that is looked up once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from typing import Generic, TypeVar

from dpxplain.model.charge import Request
from dpxplain.model.hardening import Frozen
from dpxplain.model.release import R, Released
from dpxplain.phases.dataset import Lookup, OpenDataset, ReleasePlan

Result = TypeVar("Result")


class Planned(Frozen, ABC, Generic[R, Result]):
    """A request that is planned and priced, and not yet paid for; `find` and `run` return its result."""

    plan: ReleasePlan[R]

    def __init__(self, plan: ReleasePlan[R], request: Request, dataset: OpenDataset) -> None:
        self.plan = plan
        self.request = request
        self._dataset = dataset
        self._lookup = Lookup(dataset, self._find)

    @property
    def key(self) -> str:
        """Identity of the request."""
        return self.plan.key(self._dataset)

    @property
    def is_stored(self) -> bool:
        """Whether it would cost nothing, because the identical request is released already."""
        return self._lookup.find() is not None

    def find(self) -> Result | None:
        """The stored result, if the identical request was made before. Free."""
        stored = self._lookup.find()
        return None if stored is None else self.show(stored)

    def run(self, dataset: OpenDataset | None = None) -> Result:
        """Finds the stored result or measures it, in the planned data set or the same caller's view of it."""
        dataset = (dataset or self._dataset).joining(self._dataset.schema.joined)
        return dataset.find_or_measure(self.plan, self.request, self.show, self.look, self._lookup.found)

    @property
    def look(self) -> Hashable:
        """What the result depends on besides the plan."""
        return None

    def _find(self) -> Released[R] | None:
        return self._dataset.find(self.plan)

    @abstractmethod
    def show(self, released: Released[R]) -> Result:
        """The result that a release is shown as."""
