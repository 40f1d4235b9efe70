/**
 * Trial: which arm a turn is in, the release on trial or the model that the user works with, and where that is written.
 *
 * The first request of a turn draws; Pi keeps the draw on the session's branch as the router's state, so that the session
 * itself says which turns were tried and Python (`machine.release.drawn`) finds them there. What a turn is, is the rule of
 * `machine.capture.turn`: a message of the user right after a tool result steers a run, and does not begin a turn.
 */
import { createHash } from "node:crypto";
import type { ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";
import type { Model } from "./model.ts";
import type { Trial } from "./students.ts";

/** The draw of a turn, which the entry of the user's message names. A fork of the session keeps it, and draws anew. */
export interface Drawn {
	release: string;
	arm: "candidate" | "work";
	session: string;
	turn: string;
	/** The candidate was drawn and could not be asked: the work model answers. */
	unavailable?: true;
}

/** Where a request comes from. */
export interface Asked {
	branch: SessionEntry[];
	session: string;
	/** Not the user's own turn: a summary, say, or one that is answered anew with a hint. */
	undrawn: boolean;
}

/** What the project has for it: the trial that is on, and its student. */
export interface Offered {
	trial: Trial | undefined;
	student: "release" | "base" | undefined;
}

/** The turn at the end of a branch; `begun`: something has been answered in it. */
interface Turn {
	id: string;
	begun: boolean;
}

const STATE = "pi.virtual-model-state";
const DIGITS = 13; // of hexadecimal: 52 bits, which a double holds
const RESERVE = 16_384; // tokens that Pi keeps free in a model's context before it compacts the conversation

/**
 * Who is to answer: as the turn is drawn, the model that the user works with, or the student that is served.
 *
 * A turn that began before the trial is not drawn. An `undrawn` request goes where the turn went, and draws nothing. A trial that
 * is over leaves the rest of its turn to the work model, at once, and the turns after it too, unless a release is the student
 * by then: who was given the work model for most turns is not to find the base model in its place.
 */
export function armIn({ branch, session, undrawn }: Asked, { trial, student }: Offered): Drawn | "work" | "served" {
	const turn = turnIn(branch);
	const drawn = drawnIn(branch);
	if (drawn && drawn.session === session && drawn.turn === turn?.id) return drawn.release === trial?.release ? drawn : "work";
	if (!trial) return drawn && student !== "release" ? "work" : "served";
	if (undrawn) return "work";
	if (turn && !turn.begun) return draw(trial, session, turn.id);
	return student ? "served" : "work";
}

/** Whether the conversation fits into a model as it is: Pi would summarise it for a smaller one, for good. */
export function holds(ctx: ExtensionContext, { contextWindow }: Model): boolean {
	const tokens = ctx.getContextUsage()?.tokens ?? 0;
	return tokens <= contextWindow - Math.min(RESERVE, contextWindow / 2);
}

/** The fraction of a SHA-256 decides: whoever has the salt can check each arm, and nobody without it knows one before. */
function draw({ release, share, unit, salt }: Trial, session: string, turn: string): Drawn {
	const key = unit === "session" ? session : `${session}/${turn}`;
	const digest = createHash("sha256").update(`${salt}/${key}`).digest("hex");
	const fraction = Number.parseInt(digest.slice(0, DIGITS), 16) / 16 ** DIGITS;
	return { release, arm: fraction < share ? "candidate" : "work", session, turn };
}

/** The draw that was kept last since the student was chosen. */
function drawnIn(branch: SessionEntry[]): Drawn | undefined {
	const last = branch.findLast((entry) => entry.type === "model_change" || (entry.type === "custom" && entry.customType === STATE));
	const { provider, modelId, state } = (last?.type === "custom" && (last.data as { provider: string; modelId: string; state: Drawn })) || {};
	return provider === "machine" && modelId === "student" ? state : undefined;
}

function turnIn(branch: SessionEntry[]): Turn | undefined {
	const omitted = new Set(branch.map((entry) => (entry.type === "context_edit" && !entry.replacement ? entry.targetId : "")));
	let turn: Turn | undefined;
	let begun = false;
	for (const entry of branch.toReversed()) {
		if (entry.type !== "message" || omitted.has(entry.id)) continue;
		const { role } = entry.message;
		if (role === "user") {
			if (turn) return turn;
			turn = { id: entry.id, begun };
		} else if (role === "assistant" || role === "toolResult") {
			if (turn && role === "assistant") return turn;
			turn = undefined;
			begun = true;
		}
	}
	return turn;
}
