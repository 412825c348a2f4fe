"""Duplicate texts: equal but for case, white space and punctuation (exact), or almost the same (near).

**Exact**: equal after Unicode compatibility folding, case folding, and replacing white space and sentence punctuation by
single spaces. Signs that carry meaning stay: ``2 + 2`` is not ``2 - 2``, and ``1.5`` is not ``15``.

**Near**: the sets of 5-character shingles overlap by a Jaccard similarity of at least 0.8, where shingles that occur in
more than 5% of the different texts (and in more than 20 of them) do not count. Without that exception every set
written from a template, or with one long instruction before each text, would be one big near duplicate of itself; with
it, what is compared is what the texts do not all share. Two consequences, both meant: a passage copied into more than
5% of the texts counts as a template, and a text with fewer than 20 shingles of its own is compared exactly only.

Candidates come from MinHash with banding (Broder, 1997; Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets",
chapter 3): 12 bands of 4, which finds a pair of similarity 0.8 with probability 0.998; each is then verified exactly,
so no pair is reported that is not one. Among many texts that are all alike not every pair is listed, but they are all
connected.
"""

import dataclasses
import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

SHINGLE = 5
SIMILARITY = 0.8
COMMON_SHARE = 0.05
COMMON_ROWS = 20
FEWEST_SHINGLES = 20
MOST_TEXTS = 200_000
MOST_CHARACTERS = 100_000_000

_BANDS, _ROWS_PER_BAND = 12, 4
_NEIGHBOURS = 4
_CHUNK = 1 << 18  # small enough for the processor's cache, which is where the speed comes from
_BUCKETS = 1 << 22
_SEPARATORS = re.compile(r"[\s.,;:!?\"'`´‘’“”„«»()\[\]{}…–—]+")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class NearDuplicates:
    """Pairs ``[m, 2]`` of different texts that are almost the same; `skipped` says why there was no search, if so."""

    pairs: np.ndarray
    skipped: str = ""


def normal_form(text: str) -> str:
    """What two texts must share to be exact duplicates.

    Examples:
        >>> normal_form("It's  RAINING, today!") == normal_form("it's raining today")
        True
        >>> normal_form("2 + 2 = 4") == normal_form("2 - 2 = 4"), normal_form("1.5") == normal_form("15")
        (False, False)
    """
    folded = text if text.isascii() else unicodedata.normalize("NFKC", text)
    # A text of nothing but punctuation keeps it, or all of them would be equal.
    return _SEPARATORS.sub(" ", folded.casefold()).strip() or folded.strip()


def exact_ids(texts: Sequence[str]) -> tuple[np.ndarray, list[str]]:
    """``[n]`` int64: equal for exact duplicates, numbered by first appearance; and the normal form of each number."""
    seen: dict[str, int] = {}
    ids = np.fromiter((seen.setdefault(normal_form(text), len(seen)) for text in texts), dtype=np.int64, count=len(texts))
    return ids, list(seen)


def near_duplicates(forms: Sequence[str]) -> NearDuplicates:
    """Near duplicates among different normal forms.

    Above 200,000 texts or 100 million characters nothing is searched, and `skipped` says so.
    """
    none = np.empty((0, 2), dtype=np.int64)
    characters = sum(map(len, forms))
    if len(forms) > MOST_TEXTS or characters > MOST_CHARACTERS:
        return NearDuplicates(
            pairs=none,
            skipped=f"near duplicates were not searched: {len(forms):,} different texts of {characters:,} characters are more than "
            f"{MOST_TEXTS:,} or {MOST_CHARACTERS:,}.",
        )
    common = _common_buckets(forms)
    rows, signatures = _signatures(forms, common)
    candidates = _candidates(signatures)
    if len(candidates) == 0:
        return NearDuplicates(pairs=none)
    pairs = rows[candidates]
    return NearDuplicates(pairs=pairs[_similarity(forms, pairs, common) >= SIMILARITY])


def jaccard(one: str, other: str) -> float:
    """The plain definition for one pair, without the exception for common shingles."""
    a, b = ({text[i : i + SHINGLE] for i in range(len(text) - SHINGLE + 1)} for text in (one, other))
    return len(a & b) / len(a | b) if a | b else 1.0


def _chunks(lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """Row ranges of about `_CHUNK` characters."""
    ends = np.cumsum(lengths)
    start = 0
    while start < len(lengths):
        done = ends[start - 1] if start else 0
        end = max(start + 1, int(np.searchsorted(ends, done + _CHUNK, side="right")))
        yield start, end
        start = end


def _shingles(forms: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The different shingles of each text: row numbers, ascending, and 40-bit hashes, ascending within a row."""
    lengths = np.fromiter(map(len, forms), dtype=np.int64, count=len(forms))
    letters = np.frombuffer("".join(forms).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint64)
    if len(letters) < SHINGLE:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
    row = np.repeat(np.arange(len(forms), dtype=np.uint64), lengths)
    last = len(letters) - SHINGLE + 1
    hashes = np.zeros(last, dtype=np.uint64)
    for at in range(SHINGLE):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + letters[at : at + last]
    whole = row[:last] == row[SHINGLE - 1 :]
    keys = (row[:last][whole] << np.uint64(40)) | (_mix(hashes[whole]) >> np.uint64(24))
    keys.sort()
    if len(keys):
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    return (keys >> np.uint64(40)).astype(np.int64), keys & np.uint64((1 << 40) - 1)


def _mix(values: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64: every input bit reaches every output bit."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _bucket(hashes: np.ndarray) -> np.ndarray:
    return (hashes & np.uint64(_BUCKETS - 1)).astype(np.int64)


def _common_buckets(forms: Sequence[str]) -> np.ndarray:
    """``[_BUCKETS]`` bool: shingles that occur in so many texts that they belong to a template or to the language."""
    counts = np.zeros(_BUCKETS, dtype=np.int32)
    lengths = np.fromiter(map(len, forms), dtype=np.int64, count=len(forms))
    for start, end in _chunks(lengths):
        np.add.at(counts, _bucket(_shingles(forms[start:end])[1]), np.int32(1))
    return counts > max(COMMON_ROWS, COMMON_SHARE * len(forms))


def _own_shingles(forms: Sequence[str], common: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows, hashes = _shingles(forms)
    own = ~common[_bucket(hashes)]
    return rows[own], hashes[own]


def _signatures(forms: Sequence[str], common: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows ``[r]`` that have enough shingles of their own, and their MinHash signatures ``[r, 48]`` uint32."""
    lengths = np.fromiter(map(len, forms), dtype=np.int64, count=len(forms))
    rng = np.random.default_rng(0)  # fixed: the same texts must give the same groups everywhere
    factors = rng.integers(1, 2**63, size=_BANDS * _ROWS_PER_BAND, dtype=np.uint64) | np.uint64(1)
    kept: list[np.ndarray] = []
    signed: list[np.ndarray] = []
    for start, end in _chunks(lengths):
        rows, hashes = _own_shingles(forms[start:end], common)
        counts = np.bincount(rows, minlength=end - start)
        enough = counts >= FEWEST_SHINGLES
        hashes = hashes[enough[rows]]
        if len(hashes) == 0:
            continue
        starts = np.concatenate([[0], np.cumsum(counts[enough])[:-1]])
        part = np.empty((len(factors), len(starts)), dtype=np.uint32)
        for at, factor in enumerate(factors):
            np.minimum.reduceat(((hashes * factor) >> np.uint64(32)).astype(np.uint32), starts, out=part[at])
        kept.append(np.flatnonzero(enough) + start)
        signed.append(part.T)
    if not kept:
        return np.empty(0, dtype=np.int64), np.empty((0, len(factors)), dtype=np.uint32)
    return np.concatenate(kept), np.concatenate(signed)


def _candidates(signatures: np.ndarray) -> np.ndarray:
    """Pairs ``[m, 2]`` of signature rows that share a band and agree in enough places."""
    n = len(signatures)
    found: list[np.ndarray] = []
    for band in range(_BANDS):
        key = np.zeros(n, dtype=np.uint64)
        for at in range(_ROWS_PER_BAND):
            key = _mix(key ^ signatures[:, band * _ROWS_PER_BAND + at].astype(np.uint64))
        order = np.argsort(key, kind="stable")
        ordered = key[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if n else np.empty(0, dtype=np.int64)
        first = np.repeat(order[starts], np.diff(np.concatenate([starts, [n]])))
        # All pairs of a bucket would be its size squared; the first of it and the next few are enough to connect it.
        found.append(_pair_codes(first, order, n))
        for step in range(1, _NEIGHBOURS + 1):
            same = ordered[step:] == ordered[:-step]
            found.append(_pair_codes(order[:-step][same], order[step:][same], n))
    codes = np.unique(np.concatenate(found)) if found else np.empty(0, dtype=np.int64)
    pairs = np.stack([codes // max(n, 1), codes % max(n, 1)], axis=1)
    # Three standard deviations of the estimate below the threshold: almost nothing is lost, and far fewer are verified.
    likely = [
        (signatures[part[:, 0]] == signatures[part[:, 1]]).mean(axis=1) >= SIMILARITY - 0.18
        for part in np.array_split(pairs, max(1, len(pairs) // 100_000))
    ]
    return pairs[np.concatenate(likely)]


def _pair_codes(a: np.ndarray, b: np.ndarray, n: int) -> np.ndarray:
    different = a != b
    low, high = np.minimum(a, b)[different], np.maximum(a, b)[different]
    return low * n + high


def _similarity(forms: Sequence[str], pairs: np.ndarray, common: np.ndarray) -> np.ndarray:
    """``[m]`` exact Jaccard similarities over the shingles that are not common."""
    involved, position = np.unique(pairs, return_inverse=True)
    position = position.reshape(pairs.shape)
    texts = [str(forms[int(row)]) for row in involved]
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    counts: list[np.ndarray] = []
    hashes: list[np.ndarray] = []
    for start, end in _chunks(lengths):
        rows, own = _own_shingles(texts[start:end], common)
        counts.append(np.bincount(rows, minlength=end - start))
        hashes.append(own)
    size = np.concatenate(counts)
    start_of = np.concatenate([[0], np.cumsum(size)[:-1]])
    everything = np.concatenate(hashes)
    shared = np.empty(len(pairs), dtype=np.int64)
    for first, last in _chunks(size[position].sum(axis=1)):
        shared[first:last] = _shared(everything, start_of, size, position[first:last])
    total = size[position].sum(axis=1) - shared
    return shared / np.maximum(total, 1)


def _shared(hashes: np.ndarray, start_of: np.ndarray, size: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """``[m]`` how many hashes both members of each pair have: tag them by pair, sort, count equal neighbours."""
    members = pairs.reshape(-1)
    tag = np.repeat(np.arange(len(members)) // 2, size[members])
    offset = np.arange(len(tag)) - np.repeat(np.cumsum(size[members]) - size[members], size[members])
    keys = (tag.astype(np.uint64) << np.uint64(40)) | hashes[np.repeat(start_of[members], size[members]) + offset]
    keys.sort()
    twice = keys[1:][keys[1:] == keys[:-1]]
    return np.bincount((twice >> np.uint64(40)).astype(np.int64), minlength=len(pairs))
