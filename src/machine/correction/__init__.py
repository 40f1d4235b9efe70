"""Correction: a rejected turn in, reasoning that the user approved out.

In come rows of the pool that the user tagged bad, what the user said of them, and the models that the host can ask. Out
go events of the ledger (`corrections.jsonl`), rows with approved reasoning in front of their first target, and
preference pairs. It asks nobody but its host, and nothing is learnt here: a reasoning that the user has not approved
leaves the ledger for no row.

    ledger        what happened to each correction, append-only
    contract      what a contributor is told and what it must answer, typed and versioned
    contributor   asks models for a reasoning and keeps the evidence
    gates         whether a reasoning is fit to be learnt
    moment        what was visible when the turn was decided, and what came later
    flow          the dialogs, from a diagnosis to an approved reasoning and a retried turn
    reasoning     puts an approved reasoning into a row
    link          which correction a good turn answers
    pairs         chosen and rejected turns of one context
"""
