import pytest
import torch

# Lengths that differ, one text twice, one of a single word.
TEXTS = (
    "The city of Paris is in France.",
    "Lima",
    "Water boils at one hundred degrees, and ice melts at zero",
    "She opened the door",
    "Is ten larger than nine? Yes",
    "Yes: it is",
    "Lima",
)


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Tiny models gain nothing from more threads, and on a busy machine waiting threads cost ten times the work."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def own_random_state():
    """Modules made in a test draw their weights from a state of the test's own."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def texts():
    return list(TEXTS)
