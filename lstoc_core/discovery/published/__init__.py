"""The paper's own discovery, as it is: Algorithms Main, LSTOC and Contrastive."""
