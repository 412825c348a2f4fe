"""`Watch`: the state of a monitor at work, from its hooks to what it found."""

from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import torch
from torch import nn

from transect.capture.reread import reread
from transect.errors import InputError, ModelError, SiteError
from transect.intervene.following import Following, Pass, cached_tokens
from transect.intervene.loop import LoopReader
from transect.intervene.placed import Group, Hooks
from transect.intervene.records import Alarm, Run, Step
from transect.intervene.stopping import StopOnAlarm
from transect.intervene.thresholds import Judge
from transect.models import Model

_HINT = "generate(..., stopping_criteria=watch.stopping_criteria)"


class Watch:
    """A monitor at work; made by `monitor`, used once, in a ``with`` block.

    During and after the block, `runs` has a record per call of `generate` or forward pass, `scores` and `mask` are those of
    the last one, `alarms` has all alarms and `latest` the newest step.
    """

    def __init__(
        self,
        model: Model,
        speaker: nn.Module,
        groups: tuple[Group, ...],
        judge: Judge,
        *,
        on_alarm: Callable[[Alarm], None] | None,
        on_token: Callable[[Step], None] | None,
        stop: bool | str,
        needs_criterion: bool,
        score_last: bool,
        live: bool,
    ) -> None:
        self._model, self._speaker, self._groups, self._judge = model, speaker, groups, judge
        self._on_alarm, self._on_token = on_alarm, on_token
        self._stop, self._needs_criterion, self._score_last, self._live = stop, needs_criterion, score_last, live
        self._reader = LoopReader(speaker)
        self._hooks = Hooks()
        self._used = False
        self._runs: list[Following] = []
        self._pass: Pass | None = None
        self._heard: dict[int, torch.Tensor] = {}
        self._outside = 0
        self._latest: tuple[int, Pass, Sequence[torch.Tensor]] | None = None

    def __enter__(self) -> Self:
        """Register the hooks."""
        if self._used:
            raise InputError("this monitor was used already; make a new one for each with block: transect.monitor(...).")
        self._used = True
        self._hooks.install(self._model.module, self._speaker, self._groups, before=self._before, hear=self._hear, after=self._after)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove the hooks; then, unless the block raised, see that something was scored and finite.

        Raises:
            SiteError: nothing was scored.
            InputError: thresholds were given and no token was compared, or the stopping criterion was never asked.
            ModelError: a score is NaN or infinite.
        """
        self._hooks.remove()
        self._pass = None
        if error is not None:
            return
        self._check_scored()
        for run in self._runs:
            self._check_consulted(run, at_end=True)
            if self._score_last:
                self._read_last(run)
            self._check_finite(run.number, run.first, *run.kept())

    # What was found ---------------------------------------------------------------------------------------------------------

    @property
    def runs(self) -> tuple[Run, ...]:
        """A record per call of `generate`, or per forward pass, in order; a pass that an error cut short is not among them."""
        return tuple(run.record() for run in self._runs if run.cursor > run.first)

    @property
    def scores(self) -> Mapping[str, torch.Tensor]:
        """The last run's scores: probe -> ``[B, T]``, aligned with ``sequences``; NaN where `mask` is False or nothing was read."""
        return self._last().scores

    @property
    def mask(self) -> torch.Tensor:
        """The last run's tokens of text, ``[B, T]`` bool: no padding, nothing after a row's end."""
        return self._last().mask

    @property
    def n_scored(self) -> int:
        """How many tokens were scored, over all runs."""
        return sum(run.n_scored for run in self.runs)

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """All alarms, in the order in which they came."""
        return tuple(alarm for run in self._runs for alarm in run.alarms)

    @property
    def latest(self) -> Step | None:
        """The newest pass's tokens and scores; None before the first."""
        return None if self._latest is None else self._step(*self._latest)

    def _step(self, run: int, new: Pass, scores: Sequence[torch.Tensor]) -> Step:
        named = {name: piece[..., at] for group, piece in zip(self._groups, scores, strict=True) for name, at in group.columns.items()}
        return Step(run=run, start=new.start, ids=new.ids, mask=new.mask, scores=named)

    @property
    def stopping_criteria(self) -> Any:
        """For ``generate(..., stopping_criteria=...)``: ends rows when `stop` says so, and shows the monitor the last token."""
        from transformers import StoppingCriteriaList

        return StoppingCriteriaList([StopOnAlarm(self._stopped)])  # pyright: ignore[reportArgumentType] - generate only calls it

    def _last(self) -> Run:
        found = next((run for run in reversed(self._runs) if run.cursor > run.first), None)
        if found is None:
            raise InputError("nothing was run inside the with block yet, so there are no scores; call model.module.generate(...) in it.")
        return found.record()

    # One pass -----------------------------------------------------------------------------------------------------------------

    def _before(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A pass of the whole model begins: find its run, and where its tokens lie."""
        loop = self._reader.find()
        ids = kwargs["input_ids"] if kwargs.get("input_ids") is not None else args[0] if args else None
        if not isinstance(ids, torch.Tensor) or kwargs.get("inputs_embeds") is not None:
            raise InputError("a monitor needs token ids, got inputs_embeds or nothing; give input_ids, with which scores can be aligned.")
        if kwargs.get("cu_seq_lens_q") is not None:
            raise InputError("a pass packs several texts into one row (continuous batching); a monitor needs one text per row.")
        mask = kwargs.get("attention_mask")
        mask = mask if isinstance(mask, torch.Tensor) and mask.ndim == 2 else None
        run = self._runs[-1] if self._runs else None
        past = cached_tokens(kwargs) if loop is None or run is None or run.key is not loop.key else 0
        if run is None or not run.goes_on(ids, loop, past):
            run = Following(number=len(self._runs), groups=self._groups, ids=ids, loop=loop, past=past)
            if loop is None and self._stop:
                raise InputError("stop ends rows of a generate call; a plain forward pass has nothing to stop. Leave stop out.")
            self._runs.append(run)
        else:
            self._check_consulted(run)
        self._heard = {}
        self._pass = run.begin(ids, mask if loop is None or loop.mask is None else loop.mask, loop)

    def _hear(self, index: int, hidden: torch.Tensor) -> None:
        """A site has run."""
        if self._pass is None:
            self._outside += 1
            return
        place = self._groups[index].place
        if index in self._heard:
            raise SiteError(f"{place.name} (module {place.module!r}) runs more than once in a pass, so it has no one score per token.")
        # A trace of gradients would keep every activation alive.
        with torch.no_grad():
            scores = self._groups[index].scores(hidden, rows=self._pass.ids.shape[0], skip=self._pass.skip)
        if scores.shape[1] != self._pass.ids.shape[1]:
            raise SiteError(
                f"{place.name} has {scores.shape[1]} tokens in a pass of {self._pass.ids.shape[1]}, so scores cannot be aligned; choose a "
                f"site that has every token, such as a block."
            )
        self._heard[index] = scores

    def _after(self, _module: nn.Module, _args: tuple[Any, ...], _output: Any) -> None:
        """The pass is through: keep its scores, then raise alarms."""
        new, run = self._pass, self._runs[-1]
        if new is None:
            return
        self._pass = None
        silent = [group.place.name for index, group in enumerate(self._groups) if index not in self._heard]
        if silent:
            raise SiteError(_silent(silent))
        scores = [self._heard[index] for index in range(len(self._groups))]
        run.add(new, scores)
        if self._live:
            self._check_finite(run.number, new.start, new.mask, scores)
        self._latest = (run.number, new, scores)
        alarms = self._judge.judge(run, new, scores)
        run.alarms += alarms
        if self._on_token is not None:
            self._on_token(self._step(run.number, new, scores))
        if self._on_alarm is not None:
            for alarm in alarms:
                self._on_alarm(alarm)

    def _stopped(self, ids: torch.Tensor) -> torch.Tensor:
        """``[B]``: the rows to end."""
        ended = torch.zeros(ids.shape[0], dtype=torch.bool, device=ids.device)
        run = self._runs[-1] if self._runs else None
        if run is None:
            return ended
        run.consulted += 1
        run.sequences = ids
        if self._stop and run.crossed is not None:
            rows = run.crossed.any(dim=1).to(ids.device)
            ended |= rows.any() if self._stop == "all" else rows
        return ended

    # What must hold -----------------------------------------------------------------------------------------------------------

    def _check_consulted(self, run: Following, *, at_end: bool = False) -> None:
        """Between the end of a prompt and the next pass `generate` asks its criteria once."""
        due = run.cursor >= run.prompt_length and (at_end or run.cursor > run.first)
        if self._needs_criterion and run.kind == "generate" and due and not run.consulted:
            raise InputError(
                f"stop and score_last need the monitor's stopping criterion, which generate was not given, so nothing would be stopped or "
                f"seen: {_HINT}."
            )

    def _check_scored(self) -> None:
        if self.n_scored == 0:
            names = ", ".join(group.place.name for group in self._groups)
            beside = f" {names} ran {self._outside} times outside a pass of the whole model." if self._outside else ""
            raise SiteError(
                f"the monitor at {names} scored no token: the model was not run inside the with block, or not by "
                f"model.module.generate(...) or model.module(...).{beside} A monitor that scores nothing protects nothing."
            )
        if self._judge.any and self._judge.n_compared == 0:
            raise InputError(
                "thresholds were given and no token was compared with them: by default only generated tokens that the model reads are, so a "
                "forward pass or a single new token has none. Pass compare='all' to compare prompts too."
            )

    def _check_finite(self, run: int, start: int, mask: torch.Tensor, scores: Sequence[torch.Tensor]) -> None:
        """Refuse scores ``[B, t, K]`` that are no numbers where the mask is True; what padding gives matters to nobody."""
        for group, piece in zip(self._groups, scores, strict=True):
            finite = torch.isfinite(piece)
            if bool(finite.all()):
                continue
            wrong = ~finite.all(dim=-1) & mask.to(piece.device)
            if bool(wrong.any()):
                row, position = torch.nonzero(wrong)[0].tolist()
                raise ModelError(
                    f"NaN or infinite activations at {group.place.name}: run {run}, row {row}, position {start + position} (counted from 0, "
                    f"padding included). A monitor cannot judge that token. float16 overflows at 65504: load the model in float32 or bfloat16."
                )

    def _read_last(self, run: Following) -> None:
        """Score the tokens that were sampled last, in one clean pass over the finished rows."""
        if run.kind != "generate":
            return
        left = run.unread_last()
        if not left:
            return
        found = reread(self._model, [ids for _, ids in left], sites=[group.place.name for group in self._groups])
        rows = torch.tensor([row for row, _ in left])
        for index, group in enumerate(self._groups):
            values = group.scores(found[group.place.name][:, None], rows=len(left), skip=0)[:, 0]
            last = torch.full((run.rows, group.n_columns), torch.nan, dtype=values.dtype)
            last[rows] = values
            run.last_scores[index] = last


def _silent(names: list[str]) -> str:
    return (
        f"{', '.join(names)} did not run in a pass of the model, so a monitor there would score nothing. It may be skipped while "
        f"generating, belong to another part, or be compiled: torch.compile ignores hooks."
    )
