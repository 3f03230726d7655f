"""Classes of torch.optim as optimizers of harness."""

from __future__ import annotations

import inspect
import math
from typing import Any, Callable, Sequence

import torch

from harness_plugin import Cost, Memory, Option, Optimizer, Tensor, TensorCost, Unsupported, Update, Values, threads

# Arguments of constructors that the host sets, or that say how to compute rather than what.
HOST = {"params", "lr", "foreach", "fused", "capturable", "differentiable", "maximize"}
REFUSED = {
    "LBFGS": "it evaluates the loss again within a step",
    "SparseAdam": "it takes sparse gradients, and harness has dense ones",
}

# Operations on each parameter; a root or a division counts as one, and weight decay adds 2. Source: the algorithms in
# PyTorch's documentation of the classes.
OPERATIONS: dict[str, Callable[[dict[str, Any]], float]] = {
    "Adadelta": lambda s: 16 + decay(s),
    "Adagrad": lambda s: 7 + decay(s),
    "Adam": lambda s: 14 + decay(s) + bool(s.get("amsgrad")),
    "AdamW": lambda s: 14 + decay(s) + bool(s.get("amsgrad")),
    "Adamax": lambda s: 10 + decay(s),
    "ASGD": lambda s: 6 + decay(s),
    "NAdam": lambda s: 16 + decay(s),
    "RAdam": lambda s: 15 + decay(s),
    "RMSprop": lambda s: 9 + decay(s) + 4 * bool(s.get("centered")) + 2 * bool(s.get("momentum")),
    "Rprop": lambda s: 9,
    "SGD": lambda s: 2 + decay(s) + 3 * bool(s.get("momentum")) + 2 * bool(s.get("nesterov")),
}


def decay(settings: dict[str, Any]) -> int:
    return 2 * bool(settings.get("weight_decay"))


class TorchOptimizer(Optimizer):
    version = f"1 (PyTorch {torch.__version__})"

    def __init__(self, name: str):
        known = {n.lower(): c for n, c in vars(torch.optim).items() if inspect.isclass(c) and issubclass(c, torch.optim.Optimizer)}
        known.pop("optimizer", None)
        if name.lower() not in known:
            classes = ", ".join(sorted(c.__name__ for c in known.values()))
            raise SystemExit(f"torch.optim of PyTorch {torch.__version__} has no class {name}; it has {classes}")
        self.rule = known[name.lower()]
        if self.rule.__name__ in REFUSED:
            raise SystemExit(f"torch.{self.rule.__name__} can't be used: {REFUSED[self.rule.__name__]}")
        self.name = f"torch.{self.rule.__name__}"
        self.doc = f"torch.optim.{self.rule.__name__}"
        self.arguments = arguments(self.rule)
        self.options = [
            *(o for options in self.arguments.values() for o in options),
            Option("max_grad_norm", "0", "clip the global gradient norm to this, 0: no clipping"),
        ]

    def slots(self, options: Values) -> Sequence[str]:
        # Parameters with one and two axes show what a class keeps.
        rule = Rule(self, options, [torch.zeros(7), torch.zeros(3, 5)], [True, True])
        rule.update(1, 1e-3)
        return rule.slots()

    def cost(self, options: Values, tensors: Sequence[Tensor]) -> Cost:
        """State by what the class keeps for small tensors, arithmetic by its documented formula."""
        settings, names, clips = self.settings(options), self.slots(options), options.number("max_grad_norm", 0) > 0
        operations = OPERATIONS.get(self.rule.__name__)
        flops = 7 * len(names) + 2 if operations is None else operations(settings)
        small = {shape: self.form(options, shape) for shape in {tuple(range(3, 3 + len(t.shape))) for t in tensors}}

        def of(t: Tensor) -> TensorCost:
            like = tuple(range(3, 3 + len(t.shape)))  # as many axes, each of another extent
            kept = {name: elements(v, like, t) for name, v in small[like].items()}
            # Clipping squares, sums and scales: it reads the gradient twice more and writes it.
            return TensorCost(
                flops=len(t) * (flops + 3 * clips), state=[kept.get(name, 0) for name in names], grads=1 + 3 * clips
            )

        assumed = "" if operations else f"{self.name} does not state its arithmetic: priced by its {len(names)} slots"
        return Cost.over(tensors, names, of, assumed=assumed)

    def form(self, options: Values, shape: tuple[int, ...]) -> dict[str, Any]:
        """The state that the class creates for a parameter of a shape: names and values of its entries."""
        rule = Rule(self, options, [torch.zeros(shape)], [True])
        rule.update(1, 1e-3)
        return dict(rule.optimizer.state[rule.parameters[0]])

    def settings(self, options: Values) -> dict[str, Any]:
        """The arguments of the constructor."""
        read = {name: tuple(value(options, o) for o in given) for name, given in self.arguments.items()}
        return {name: values if isinstance(self.default(name), (tuple, list)) else values[0] for name, values in read.items()}

    def default(self, name: str) -> Any:
        return inspect.signature(self.rule).parameters[name].default

    def open(self, options: Values, memory: Memory) -> Session:
        return Session(self, options, memory)


def elements(v: Any, like: tuple[int, ...], t: Tensor) -> int:
    """Elements of an entry of a tensor's state, where v is the entry for a tensor of shape like, whose extents all differ."""
    if v is None:
        return 0
    if not isinstance(v, torch.Tensor):
        return 1
    return math.prod(t.shape[like.index(n)] if n in like else n for n in v.shape)


def arguments(rule: type) -> dict[str, list[Option]]:
    """The arguments of a constructor that are numbers, switches or tuples of numbers, each with the options that it is made of."""
    found = {}
    for name, p in inspect.signature(rule).parameters.items():
        if name in HOST or p.default is inspect.Parameter.empty:
            continue
        doc = f"{name} of torch.optim.{rule.__name__}"
        if isinstance(p.default, (bool, int, float)):
            found[name] = [Option(name, str(p.default).lower(), doc)]
        elif isinstance(p.default, (tuple, list)) and all(isinstance(v, (int, float)) for v in p.default):
            single = name[:-1] if name.endswith("s") else name
            found[name] = [Option(f"{single}{i}", str(v), f"{doc}, number {i}") for i, v in enumerate(p.default, 1)]
    return found


def value(options: Values, o: Option) -> Any:
    if o.default in ("true", "false"):
        return options.boolean(o.name)
    number = options.number(o.name)
    return int(number) if o.default.lstrip("-").isdigit() and number == int(number) else number


class Rule:
    """A class of torch.optim at work on some tensors."""

    def __init__(self, o: TorchOptimizer, options: Values, parameters: Sequence[torch.Tensor], decays: Sequence[bool]):
        self.parameters = [p.requires_grad_() for p in parameters]
        for p in self.parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        settings = o.settings(options)
        groups = [{"params": [p for p, d in zip(self.parameters, decays) if d == decay]} for decay in (True, False)]
        if settings.get("weight_decay"):
            groups[1]["weight_decay"] = 0
        try:
            # The rate is set before each step; some classes require a positive one here.
            self.optimizer = o.rule([g for g in groups if g["params"]], lr=1e-3, **settings)
        except (TypeError, ValueError) as e:
            raise ValueError(f"{o.name}: {e}") from e

    def update(self, number: int, lr: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        try:
            self.optimizer.step()
        except TypeError as e:
            raise Unsupported(f"torch.{type(self.optimizer).__name__}: {e}") from e

    def slots(self) -> list[str]:
        """Names of the state, in the order in which the class creates it, without the step count, which the host keeps."""
        names: dict[str, None] = {}
        for p in self.parameters:
            names.update(dict.fromkeys(name for name, v in self.optimizer.state[p].items() if name != "step" and v is not None))
        return list(names)


class Session:
    """An update rule over the host's memory. Parameters, gradients and state are tensors over it.

    An entry of a parameter's state lies at the beginning of the parameter's place in its slot. It may be as large as the
    parameter, smaller, or one number.
    """

    def __init__(self, o: TorchOptimizer, options: Values, memory: Memory):
        torch.set_num_threads(threads())
        self.optimizer, self.options, self.memory = o, options, memory
        self.clip = options.number("max_grad_norm", 0)
        self.names = list(o.slots(options))
        self.rule, self.attached = self.begin(), False
        self.forms: dict[tuple[int, ...], dict[str, Any]] = {}

    def begin(self) -> Rule:
        """The rule at the start of a run."""
        parameters = []
        for t in self.memory.layout.tensors:
            p = torch.from_numpy(t.of(self.memory.params))
            p.grad = torch.from_numpy(t.of(self.memory.grads))
            parameters.append(p)
        return Rule(self.optimizer, self.options, parameters, [t.kind.decays for t in self.memory.layout.tensors])

    def step(self, update: Update) -> None:
        if self.clip and update.gradient_norm > self.clip:
            # Without an epsilon, as the built-in optimizers do it; torch.nn.utils.clip_grad_norm_ adds 1e-6 to the norm.
            torch.from_numpy(self.memory.grads).mul_(self.clip / update.gradient_norm)
        # At rate 0 no parameter moves, but some rules (Rprop) use step sizes of their own.
        before = self.memory.params.copy() if update.lr == 0 else None
        if update.number == 1:
            self.rule, self.attached = self.begin(), False
        else:
            self.read(update.number)
        self.rule.update(update.number, update.lr)
        self.write()
        if before is not None:
            self.memory.params[:] = before

    def place(self, name: str, t: Tensor, n: int) -> torch.Tensor:
        return torch.from_numpy(self.memory.slots[self.names.index(name)][t.offset : t.offset + n])

    def read(self, number: int) -> None:
        """Makes the state before an update from the slots."""
        for t, p in zip(self.memory.layout.tensors, self.rule.parameters):
            state = self.rule.optimizer.state[p]
            for name, v in (state if self.attached else self.form(t.shape)).items():
                if name == "step":
                    state[name] = torch.full_like(v, number - 1) if isinstance(v, torch.Tensor) else number - 1
                elif not isinstance(v, torch.Tensor):
                    state[name] = v if v is None else type(v)(self.place(name, t, 1).item())
                elif not self.attached:
                    state[name] = self.place(name, t, v.numel()).view(v.shape)

    def form(self, shape: tuple[int, ...]) -> dict[str, Any]:
        """State of a parameter of a shape, made once."""
        if shape not in self.forms:
            self.forms[shape] = self.optimizer.form(self.options, shape)
        return self.forms[shape]

    def write(self) -> None:
        """Moves state that an update allocated into the slots, and makes the class use it there."""
        for t, p in zip(self.memory.layout.tensors, self.rule.parameters):
            state = self.rule.optimizer.state[p]
            for name, v in state.items():
                if name == "step" or v is None:
                    continue
                if not isinstance(v, torch.Tensor):
                    self.place(name, t, 1).fill_(v)
                    continue
                if v.numel() > len(t):
                    raise Unsupported(f"{name} of {t.name} has {v.numel()} elements, want at most the parameter's {len(t)}")
                place = self.place(name, t, v.numel()).view(v.shape)
                if v.data_ptr() != place.data_ptr():
                    place.copy_(v)
                    state[name] = place
        self.attached = True

    def close(self) -> None:
        self.__dict__.clear()
