/** Errors: the JSON-RPC codes of what Pi cannot do for Python; `src/machine/sidecar/host.py` knows them by number. */

/** The context is gone: its session was replaced. Python gives up what it wanted to ask. */
export const GONE = -32001;
/** There is no such model, no key for it, or this Pi is too old to ask it. Nothing was asked, nothing has moved. */
export const NO_MODEL = -32002;
/** It may not be done now. Nothing has moved. */
export const REFUSED = -32003;
export const UNKNOWN_METHOD = -32601;

/** An error that reaches Python with `code`. */
export function coded(code: number, message: string): Error {
	return Object.assign(new Error(message), { code });
}
