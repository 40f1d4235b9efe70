"""Release: a measured checkpoint in, a model that Pi may use out, reversibly.

    preregistration   what will count, written down before the checkpoint exists (YAML)
    seal              what freezing hashes, and what changed since
    log               the append-only, hash-chained log of every step of every release of a project
    standing          where a release stands, as the log says, and what may come next
    candidate         a run against the bounds that were preregistered, by the run's own records
    gates/            the tests, each a figure against a threshold
    trial, outcomes   real use, and what came of it
    active            the movable alias: which release the student is

May import every room before it; no room but the footer, the observer and the commands may import it.
"""
