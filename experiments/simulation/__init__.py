"""The paper's simulation study: 20 data sets, BMCD and collaborative filtering, next 5 and next 10."""

from experiments.simulation.study import SimulationStudy

__all__ = ["SimulationStudy"]
