"""A backend that receives batches and computes nothing: what is left of a step is the wire."""

from harness_plugin import Backend, Losses, Memory, Precision, Program, Session, StepResult, serve


class Idle(Backend):
    name, doc = "idle", "computes nothing"
    precisions = [Precision("fp32", "none", 1, 1, "nothing is computed")]

    def open(self, program: Program, memory: Memory) -> Session:
        return IdleSession()


class IdleSession(Session):
    def step(self, step, batches) -> StepResult:
        for _ in batches:
            pass
        return StepResult(Losses())


serve(Idle())
