"""Look at the posterior of a run (:mod:`pyroclaw.experiments.inspection`).

python experiments/inspect.py runs/split_notmnist/claw/default-1a2b3c4d

The file has the name of a module of the standard library. Python puts the folder of a script first on its path, so for
every script of this folder `import inspect`, which half of the standard library does, finds this file: it then steps
aside and puts the standard library's module in its own place.
"""

import sys

if __name__ == "inspect":
    import importlib.util
    import sysconfig

    _spec = importlib.util.spec_from_file_location("inspect", f"{sysconfig.get_path('stdlib')}/inspect.py")
    assert _spec is not None and _spec.loader is not None
    sys.modules["inspect"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["inspect"])
elif __name__ == "__main__":
    from pyroclaw.experiments.inspection import main

    sys.exit(main())
