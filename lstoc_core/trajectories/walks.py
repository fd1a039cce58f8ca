"""Random walks: trajectories without a policy."""

import numpy as np

from lstoc_core.trajectories.store import TrajectoryStore
from lstoc_core.trajectories.vector_env import IdVectorEnv


def random_walks(env: IdVectorEnv, count: int, *, seed: int = 0) -> TrajectoryStore:
    """`count` episodes of uniformly random actions in a vector environment of observation ids (see `make_vec`).

    Every environment plays equally often, so that short episodes are not favoured.
    """
    rng = np.random.default_rng(seed)
    store = TrajectoryStore(len(env.observations))
    while len(store) < count:
        ids, _ = env.reset(seed=int(rng.integers(2**31)))
        seen, lengths, labels = [ids], np.zeros(env.num_envs, np.int64), np.zeros(env.num_envs, np.bool_)
        while not lengths.all():
            _, _, terminated, truncated, info = env.step(rng.integers(env.num_actions, size=env.num_envs))
            seen.append(info["final_obs"].copy())
            ended = (terminated | truncated) & (lengths == 0)
            lengths[ended] = len(seen)
            labels[ended] = info["success"][ended]
        take = min(count - len(store), env.num_envs)
        store.append(np.stack(seen, axis=1)[:take], lengths[:take], labels[:take])
    return store
