"""The study: experiments, the runs behind them, their tables and statistics."""
