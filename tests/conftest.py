"""Every test starts from the same seed and an empty parameter store; UNLOCK_SEED=1 lets the seed vary."""

import os
import random

import numpy as np
import pyro
import pytest
import torch


@pytest.fixture(autouse=True)
def seeded():
    seed = random.randrange(2**31) if os.environ.get("UNLOCK_SEED") else 0
    random.seed(seed)
    np.random.seed(seed)
    pyro.set_rng_seed(seed)
    pyro.clear_param_store()
    print(f"seed {seed}")
