/**
 * Loan: another model in place of the user's for a while, with what it takes to give the user's back whatever happens.
 *
 * What is owed is an entry of the session, right before the change of model; models are not sent such entries. It thus lies
 * where a resumed session, or a fork of it, takes its model from: a session whose model is on loan when it starts (Pi was
 * killed, or forked in the middle) is given the user's back. Nothing here touches the user's settings: Pi since 0.84 keeps
 * what an extension sets to the session.
 */
import type { ExtensionAPI, ExtensionContext, SessionEntry } from "@earendil-works/pi-coding-agent";
import { coded, NO_MODEL } from "./errors.ts";
import { say } from "./host.ts";
import { hasStreamSimple, type Model, nameOf, usableModel } from "./model.ts";

type Level = ReturnType<ExtensionAPI["getThinkingLevel"]>;

interface Owed {
	model: string;
	level: Level;
}

const ENTRY = "machine.loan";

export class Loan {
	private readonly pi: ExtensionAPI;
	private open: { ctx: ExtensionContext; lent: Model; model: Model; level: Level } | undefined;
	private ending: Promise<void> | undefined;

	constructor(pi: ExtensionAPI) {
		this.pi = pi;
		pi.on("session_start", (_event, ctx) => this.recover(ctx));
		pi.on("session_shutdown", () => this.end()); // the context is live until this has returned
	}

	/** The model that `name` lends, undefined where it is the user's own already. Throws if it cannot be lent. */
	find(ctx: ExtensionContext, name: string | null): Model | undefined {
		const own = usableModel(ctx, null);
		const other = usableModel(ctx, name);
		if (nameOf(other) === nameOf(own)) return undefined;
		if (hasStreamSimple(ctx.modelRegistry)) return other; // a sign of a Pi that does not save a model that is set as the default
		throw coded(NO_MODEL, `this Pi makes any model that is set the default, so ${nameOf(other)} cannot stand in for ${nameOf(own)}`);
	}

	/** Sets `lent`. Returns what keeps Pi from it; `end` is to follow either way. */
	async begin(ctx: ExtensionContext, lent: Model): Promise<string | undefined> {
		const model = usableModel(ctx, null);
		const level = this.pi.getThinkingLevel();
		this.open = { ctx, lent, model, level };
		this.pi.appendEntry<Owed>(ENTRY, { model: nameOf(model), level });
		return this.set(lent);
	}

	/** Gives the user's model and thinking level back, unless the user has chosen another model since. */
	end(): Promise<void> {
		return (this.ending ??= this.giveBack().finally(() => {
			this.ending = undefined;
		}));
	}

	private async giveBack(): Promise<void> {
		if (!this.open) return;
		const { ctx, lent, model, level } = this.open;
		if (ctx.model && nameOf(ctx.model) === nameOf(lent)) await this.setAgain(ctx, model, level);
		this.open = undefined;
	}

	private async recover(ctx: ExtensionContext): Promise<void> {
		const owed = owedBy(ctx);
		if (!owed) return;
		const slash = owed.model.indexOf("/");
		const model = ctx.modelRegistry.find(owed.model.slice(0, slash), owed.model.slice(slash + 1));
		if (!model) return lost(ctx, owed.model, "Pi does not know it");
		if (await this.setAgain(ctx, model, owed.level)) say(ctx, `Your model is ${owed.model} again: the retry that had another ended with its session.`);
	}

	private async setAgain(ctx: ExtensionContext, model: Model, level: Level): Promise<boolean> {
		const problem = await this.set(model);
		if (problem) lost(ctx, nameOf(model), problem);
		else this.pi.setThinkingLevel(level);
		return !problem;
	}

	private async set(model: Model): Promise<string | undefined> {
		try {
			return (await this.pi.setModel(model)) ? undefined : `Pi has no key for ${nameOf(model)}`;
		} catch (error) {
			return (error as Error).message;
		}
	}
}

/** Whether the change of model after `entry` is a loan. */
export function isLoan(entry: SessionEntry | undefined): boolean {
	return entry?.type === "custom" && entry.customType === ENTRY;
}

/** What is owed to the user of a session whose model, at its leaf, is one on loan. */
function owedBy({ model, sessionManager: session }: ExtensionContext): Owed | undefined {
	const up = (id: string | null): SessionEntry | undefined => (id ? session.getEntry(id) : undefined);
	let entry = session.getLeafEntry();
	while (entry && entry.type !== "model_change") entry = up(entry.parentId);
	if (!entry || !model || nameOf(model) !== nameOf({ provider: entry.provider, id: entry.modelId })) return undefined;
	const before = up(entry.parentId);
	return before?.type === "custom" && before.customType === ENTRY ? (before.data as Owed) : undefined;
}

function lost(ctx: ExtensionContext, name: string, problem: string): void {
	say(ctx, `Your model ${name} could not be set again: ${problem}\nNext: /model`, "warning");
}
