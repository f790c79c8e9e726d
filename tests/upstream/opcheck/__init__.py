"""Run PyTorch's own operator, module and optimizer databases on a device and compare each sample with the CPU.

`items` names the work, `cases_*` turn one item into cases, `engine` runs a case on both devices, `worker` does so in a process
that may die, and `run.py` beside this package drives the workers.
"""
