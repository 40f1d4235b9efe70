/**
 * Retry: a message of the user is answered anew, from where it was first asked, perhaps by another model, with a hint that
 * is in that run's requests and nowhere else. The answer so far stays in the session's tree.
 *
 * Once begun it needs nobody: it goes to its end, and gives the user's model back, when Python is gone.
 */
import type { ContextEvent, ExtensionAPI, ExtensionCommandContext, ExtensionContext } from "@earendil-works/pi-coding-agent";
import { coded, GONE, REFUSED } from "./errors.ts";
import type { Loan } from "./loan.ts";
import { type Model, nameOf, usableModel } from "./model.ts";

type Messages = ContextEvent["messages"];
type Content = Extract<Messages[number], { role: "user" }>["content"];

export interface Wanted {
	/** The user's message, by its entry. */
	entry: string;
	hint: string;
	/** `provider/id`; null: the model that the user works with. */
	model: string | null;
}

export interface Ended {
	outcome: "answered" | "failed" | "aborted" | "not_started";
	detail: string;
}

interface Run {
	hint: string;
	/** When it was asked for: the user's message is the first from then on. */
	since: number;
	/** The timestamp of the user's message; unknown until the first request. */
	sent?: number;
	started: boolean;
	end(aborted: boolean): void;
	fail(error: Error): void;
}

const START_TIMEOUT_MS = 15_000;
const IDLE_POLL_MS = 50;

export class Retry {
	private readonly pi: ExtensionAPI;
	private readonly loan: Loan;
	private busy = false;
	private run: Run | undefined;
	private settles = false; // Pi < 0.80 has no agent_settled

	constructor(pi: ExtensionAPI, loan: Loan) {
		this.pi = pi;
		this.loan = loan;
		pi.on("agent_start", () => {
			if (this.run) this.run.started = true;
		});
		pi.on("context", ({ messages }) => (this.run ? { messages: hinted(messages, this.run) } : undefined));
		pi.on("agent_settled", ({ aborted }) => {
			this.settles = true;
			if (this.run?.started) this.run.end(aborted ?? false);
		});
		pi.on("agent_end", (_event, ctx) => this.settle(ctx, this.run));
		pi.on("session_shutdown", () => this.run?.fail(coded(GONE, "the session was replaced")));
	}

	/** Whether one is being answered. */
	get isOn(): boolean {
		return this.run !== undefined;
	}

	/** Resolves when the run is over and the user's model is set again. Rejects where nothing has moved, or the session ended. */
	async answerAnew(ctx: ExtensionContext, { entry, hint, model: name }: Wanted) {
		if (this.busy) throw coded(REFUSED, "a message is being answered anew already");
		if (!ctx.isIdle()) throw coded(REFUSED, "the agent is still working");
		if (!("navigateTree" in ctx)) throw coded(REFUSED, "only a command can go back in the session");
		const content = asked(ctx, entry);
		const lent = this.loan.find(ctx, name);
		const model = nameOf(lent ?? usableModel(ctx, null));
		this.busy = true;
		try {
			const ended = await this.goBackAndAsk(ctx as ExtensionCommandContext, entry, lent, content, hint);
			return { ...ended, model, leaf: ctx.sessionManager.getLeafId() };
		} finally {
			this.busy = false;
		}
	}

	private async goBackAndAsk(ctx: ExtensionCommandContext, entry: string, lent: Model | undefined, content: Content, hint: string): Promise<Ended> {
		const before = ctx.sessionManager.getLeafId();
		if (!(await goTo(ctx, entry))) return notStarted("another extension keeps Pi from going back");
		const ended = await this.lendAndAsk(ctx, lent, content, hint);
		if (ended.outcome === "not_started" && before) await goTo(ctx, before).catch(() => false); // Pi may be at it after all
		return ended;
	}

	private async lendAndAsk(ctx: ExtensionContext, lent: Model | undefined, content: Content, hint: string): Promise<Ended> {
		try {
			const problem = lent && (await this.loan.begin(ctx, lent));
			return problem ? notStarted(problem) : await this.ask(ctx, content, hint);
		} finally {
			await this.loan.end();
		}
	}

	private async ask(ctx: ExtensionContext, content: Content, hint: string): Promise<Ended> {
		let timer: NodeJS.Timeout | undefined;
		try {
			const aborted = await new Promise<boolean | null>((end, fail) => {
				const run: Run = { hint, since: Date.now(), started: false, end, fail };
				this.run = run;
				const isLate = () => {
					if (run.started) return;
					if (ctx.isIdle()) end(null);
					else timer = setTimeout(isLate, START_TIMEOUT_MS); // it is being prepared: a compaction, another extension
				};
				timer = setTimeout(isLate, START_TIMEOUT_MS);
				this.pi.sendUserMessage(content);
			});
			if (aborted === null) return notStarted(`Pi did not start within ${START_TIMEOUT_MS / 1000} seconds`);
			return outcome(ctx, aborted);
		} finally {
			clearTimeout(timer);
			this.run = undefined;
		}
	}

	/** For a Pi without agent_settled: the run is over when Pi is idle after an agent_end that no retry follows. */
	private settle(ctx: ExtensionContext, run: Run | undefined): void {
		setTimeout(() => {
			if (this.settles || !run?.started || this.run !== run) return;
			if (ctx.isIdle()) run.end(false);
			else this.settle(ctx, run);
		}, IDLE_POLL_MS);
	}
}

function notStarted(detail: string): Ended {
	return { outcome: "not_started", detail };
}

/** What the user's message holds. Throws where Pi could not send just that again: it sends one text, then images. */
function asked(ctx: ExtensionContext, id: string): Content {
	const entry = ctx.sessionManager.getEntry(id);
	if (entry?.type !== "message" || entry.message.role !== "user") throw coded(REFUSED, `${id} is no message of yours in this session`);
	if (ctx.sessionManager.getLeafId() === id) throw coded(REFUSED, `${id} has not been answered yet`);
	const { content } = entry.message;
	const isPlain = typeof content === "string" || content.every((part, index) => part.type === (index === 0 ? "text" : "image"));
	if (!isPlain) throw coded(REFUSED, `${id} is not one text with images after it, as Pi would send it again`);
	return content;
}

/** Goes to `entry`, or before it where it is the user's message. Pi then offers that text for editing; what was typed stays. */
async function goTo(ctx: ExtensionCommandContext, entry: string): Promise<boolean> {
	const typed = ctx.ui.getEditorText();
	const { cancelled } = await ctx.navigateTree(entry, { summarize: false });
	if (ctx.ui.getEditorText() !== typed) ctx.ui.setEditorText(typed);
	return !cancelled;
}

/** The messages of a request, with the hint right after the user's message; where a compaction took that, after its summary. */
function hinted(messages: Messages, run: Run): Messages {
	run.sent ??= messages.find((message) => message.role === "user" && message.timestamp >= run.since)?.timestamp;
	if (run.sent === undefined) return messages; // a run of somebody else's, which came first
	const at = messages.findLastIndex((message) => message.role === "user" && message.timestamp === run.sent);
	const after = at >= 0 ? at : messages.findLastIndex((message) => message.role === "compactionSummary");
	return messages.toSpliced(after + 1, 0, { role: "user", content: [{ type: "text", text: run.hint }], timestamp: run.sent });
}

function outcome(ctx: ExtensionContext, aborted: boolean): Ended {
	const answers = ctx.sessionManager.getBranch().map((entry) => (entry.type === "message" ? entry.message : undefined));
	const last = answers.findLast((message) => message?.role === "user" || message?.role === "assistant");
	if (aborted || (last?.role === "assistant" && last.stopReason === "aborted")) return { outcome: "aborted", detail: "" };
	if (last?.role !== "assistant") return { outcome: "failed", detail: "there was no answer" };
	if (last.stopReason === "error") return { outcome: "failed", detail: last.errorMessage ?? "" };
	return { outcome: "answered", detail: last.stopReason === "length" ? "the answer was cut off by its length" : "" };
}
