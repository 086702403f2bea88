"""The net: what a user relies on, through commands, their JSON, files and `import isosweep` alone.

`surface.py` alone knows how settings, files and fields are called. By invariant:

- cells within tolerance, planned + rejected = enumerated: test_plans.py
- measured compute, same problems, trained once, extension, shared runs: test_shared_runs.py
- identity: test_identity.py
- kills, stops, two attempts, two drivers: test_interrupted.py, test_ranks.py; faults of disks:
  test_driver.py; copies: test_copied.py; searches: test_search.py; Slurm, cancel: test_slurm.py
- held-out rewards alone, edges, MLflow from files, compare: test_answers.py; numbers of sixty
  sweeps: test_stored_numbers.py; ragged logs: test_ragged.py; recommend: test_recommend.py
- own task, reward, model, trainer, mixture, difficulty, pretrained model: test_own_parts.py
- nothing of another user is executed: test_own_words.py; variables: test_environment.py
- logs of others: test_import_*.py; wrong commands: test_wrong_commands.py, test_refusals.py

Not here yet: FSDP2 (tests/training/test_sharded.py), vLLM (tests/training/test_vllm*.py) and code
tasks (tests/tasks/test_code.py), which no command reaches on a CPU.
"""
