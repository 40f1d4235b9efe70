/** Commands: the names that Pi registers, and the words that its editor completes after each. Python knows the rest. */
export const COMMANDS: Record<string, { description: string; words: string[] }> = {
	good: {
		description: "Keep the last turn as an example to learn from",
		words: ["--as ", "--note ", "--out "],
	},
	correction: {
		description: "Say what was wrong with the last turn, and have it answered better",
		words: ["--as ", "--reasoning ", "--note ", "--resume", "--retry"],
	},
	corrections: {
		description: "Show your corrections and what became of them",
		words: ["export --pairs ", "drop "],
	},
	tagged: {
		description: "Show the turns that you tagged, newest first",
		words: ["--tag good", "--tag bad", "--tag observed"],
	},
	machine: {
		description: "What Machine holds about this project, and its own set-up",
		words: [
			"data", "student", "work", "auto", "auto on", "auto off", "footer", "footer on", "footer off",
			"privacy", "privacy policy ", "privacy scan --pool", "privacy redact ", "privacy erase ", "privacy sent",
			"doctor", "setup", "engine start", "engine stop", "engine status",
		],
	},
	train: {
		description: "Check the tagged turns, train a student on them, measure it",
		words: ["validate", "sft", "run", "run --yes", "runs", "eval init", "eval baseline", "eval checkpoint", "eval compare"],
	},
	release: {
		description: "Behavior releases: let a checkpoint in, by its gates, and take it back",
		words: ["status", "new ", "freeze ", "candidate ", "gate ", "trial ", "activate ", "rollback", "reject ", "amend ", "log", "verify"],
	},
	tinker: {
		description: "Tinker models and checkpoints as models of Pi",
		words: [
			"models", "use ", "list", "remove ", "checkpoints", "status", "doctor", "engine start", "engine stop", "engine status",
			"demo",
		],
	},
};
