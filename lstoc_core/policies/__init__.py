"""How the agent acts and learns to: the recurrent policy, PPO, what it is paid, and the pursuit of known sequences."""
