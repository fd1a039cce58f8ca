"""What is wrong with a run, found by itself: one sentence each, with the cause and the argument that mends it."""

from lstoc_core.exploration.explorer import Explorer
from lstoc_core.trajectories.cells import CellIdentity
from lstoc_core.trajectories.clusters import ClusterIdentity
from lstoc_core.trajectories.interned import InternedVectorEnv

EARLY = 2_000
"""Environment steps before observations can be said not to repeat."""
MOST_NEW = 0.5
"""Most of the steps that may lead to observations never seen before."""
MOST_FRESH = 0.2
"""Most new learned clusters per step."""
ENDLESS = 10_000
"""Steps of an episode after which it seems to have no end."""
ENOUGH = 30
"""Episodes, or successes, that a judgement of outcomes needs."""


def flaws(explorer: Explorer, *, prompt: bool) -> dict[str, str]:
    """What keeps this run from finding anything: cause -> sentence. prompt: as in `GuidedConfig`."""
    steps, store, env = explorer.env_steps, explorer.trajectories, explorer.env
    found: dict[str, str] = {}
    episodes, successes = len(store), int(store.labels.sum())
    distinct = len(env.observations)
    foreign = isinstance(env, InternedVectorEnv)
    boxed = isinstance(env, InternedVectorEnv) and isinstance(env.vocabulary, CellIdentity)
    what = "sets of features" if isinstance(env, InternedVectorEnv) and env.vocabulary else "observations"
    if steps >= EARLY and distinct == 1:
        found["sameness"] = (
            f"{what} are all the same in {steps:,} steps, so nothing can be told apart: check what the environment "
            "shows, or say what holds in an observation by events="
        )
    if steps >= EARLY and distinct > MOST_NEW * steps and not boxed:
        found["novelty"] = (
            f"{what} hardly repeat: {distinct:,} different ones in {steps:,} steps, and a key state must recur; "
            "say what recurs by events= (a function of an observation, tiles(), 'boxes' for a few real numbers, or "
            "'learned' if noise alone keeps them from repeating), or "
            "when two observations are the same by InternedVectorEnv(..., identity=...)"
        )
    learned = env.identity if isinstance(env, InternedVectorEnv) else None
    if isinstance(learned, ClusterIdentity) and (learned.full or (steps >= EARLY and distinct > MOST_FRESH * steps)):
        found["novelty"] = (
            f"learned clusters hardly recur: {distinct:,} different ones in {steps:,} steps, and a key state must; say "
            "what recurs by events=, a function of an observation, or 'boxes' for a few real numbers"
        )
    if episodes >= ENOUGH and episodes - successes <= episodes // 100:
        how_many = f"all {episodes}" if successes == episodes else f"{successes} of {episodes}"
        found["only successes"] = (
            f"{how_many} episodes succeeded: without failures there is nothing to contrast; check success=, or "
            "make episodes shorter, so that some fail"
        )
    if foreign and steps - store.num_steps >= ENDLESS * env.num_envs:
        found["no end"] = (
            f"an episode has gone on for {ENDLESS:,} steps: give the environment a limit, "
            "gymnasium.wrappers.TimeLimit(env, max_episode_steps=...)"
        )
    if foreign and episodes >= ENOUGH and not successes and steps >= 5 * EARLY:
        found["no successes"] = (
            f"none of {episodes} episodes succeeded in {steps:,} steps: check success=, or make the task easier to "
            "stumble on"
        )
    if isinstance(env, InternedVectorEnv) and prompt and 2 * env.late_successes > env.successes >= ENOUGH:
        found["truncation"] = (
            f"{env.late_successes} of {env.successes} successes ended by truncation: episodes seem to run on after the "
            "task is done, so their last observation says little; terminate them, or pass "
            "config=lstoc.LSTOCConfig(guided=lstoc.GuidedConfig(prompt=False))"
        )
    return found
