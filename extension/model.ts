/**
 * Model: finding one by its name, and one answer of it outside the session, without tools and without thinking.
 *
 * Pi before 0.86 has no `modelRegistry.streamSimple`: its own library is asked instead, with the key that Pi resolves.
 */
import type { ExtensionContext } from "@earendil-works/pi-coding-agent";
import { coded, GONE, NO_MODEL } from "./errors.ts";

export type Model = NonNullable<ExtensionContext["model"]>;
type Registry = ExtensionContext["modelRegistry"];
type Context = Parameters<Registry["streamSimple"]>[1];
type Options = NonNullable<Parameters<Registry["streamSimple"]>[2]>;
type Answer = Awaited<ReturnType<ReturnType<Registry["streamSimple"]>["result"]>>;

export interface Question {
	system: string;
	said: [role: "user" | "assistant", text: string][];
	/** `provider/id`; null: the one that the user works with. */
	model: string | null;
	maxTokens: number;
}

const ANSWER_TIMEOUT_MS = 120_000;
const LIBRARY: string = "@mariozechner/pi-ai"; // Pi gives it to its extensions under this name, then as now
const NOTHING = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 };

export function nameOf({ provider, id }: { provider: string; id: string }): string {
	return `${provider}/${id}`;
}

/** The model `provider/id`, or the user's where there is no name. Throws unless Pi knows it and has a key for it. */
export function usableModel(ctx: ExtensionContext, name: string | null): Model {
	const slash = name?.indexOf("/") ?? -1;
	const model = name ? ctx.modelRegistry.find(name.slice(0, slash), name.slice(slash + 1)) : ctx.model;
	if (!model) throw coded(NO_MODEL, name ? `Pi has no model ${name}` : "no model is chosen in Pi");
	if (!ctx.modelRegistry.hasConfiguredAuth(model)) throw coded(NO_MODEL, `Pi has no key for ${nameOf(model)}`);
	return model;
}

/** Whether this Pi answers through its registry, as it does from 0.86 on. */
export function hasStreamSimple(registry: Registry): boolean {
	return typeof registry.streamSimple === "function";
}

/** One answer. Throws, saying why, where there is none that is whole. `ended` stops it with its session. */
export async function complete(ctx: ExtensionContext, question: Question, ended: AbortSignal) {
	const model = usableModel(ctx, question.model);
	const limit = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
	const context: Context = { systemPrompt: question.system, messages: question.said.map((one) => message(model, ...one)) };
	const maxTokens = Math.min(question.maxTokens, model.maxTokens || question.maxTokens);
	const answer = await ask(ctx.modelRegistry, model, context, {
		maxTokens,
		signal: AbortSignal.any([limit, ended]),
		cacheRetention: "none",
	});
	if (ended.aborted) throw coded(GONE, "the session was replaced");
	const name = nameOf({ provider: answer.provider, id: answer.model });
	const text = answer.content.map((part) => (part.type === "text" ? part.text : "")).join("");
	if (limit.aborted) throw new Error(`${name} did not answer within ${ANSWER_TIMEOUT_MS / 1000} seconds`);
	if (answer.stopReason === "length") throw new Error(`${name} was cut off after ${maxTokens} tokens`);
	if (answer.stopReason !== "stop") throw new Error(`${name}: ${answer.errorMessage ?? answer.stopReason}`);
	if (!text.trim()) throw new Error(`${name} gave an empty answer`);
	const { input, output, cacheRead, cacheWrite, cost } = answer.usage;
	return { text, model: name, inputTokens: input + cacheRead + cacheWrite, outputTokens: output, cost: cost.total };
}

async function ask(registry: Registry, model: Model, context: Context, options: Options): Promise<Answer> {
	if (hasStreamSimple(registry)) return registry.streamSimple(model, context, options).result();
	const auth = await registry.getApiKeyAndHeaders(model);
	if (!auth.ok) throw coded(NO_MODEL, auth.error);
	const library = (await import(LIBRARY)) as { completeSimple(m: Model, c: Context, o: Options): Promise<Answer> };
	return library.completeSimple(model, context, { ...options, apiKey: auth.apiKey, headers: auth.headers });
}

function message({ api, provider, id }: Model, role: "user" | "assistant", text: string): Context["messages"][number] {
	const timestamp = Date.now();
	if (role === "user") return { role, content: text, timestamp };
	const usage = { ...NOTHING, totalTokens: 0, cost: { ...NOTHING, total: 0 } };
	return { role, content: [{ type: "text", text }], api, provider, model: id, usage, stopReason: "stop", timestamp };
}
