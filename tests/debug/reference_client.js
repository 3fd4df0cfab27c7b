// The requests of an editor, sent by the reference client of the Debug Adapter Protocol. Prints the name of each and
// how it was answered.
const { spawn } = require("child_process");
const { DebugClient } = require("@vscode/debugadapter-testsupport");

const [python, kernel] = process.argv.slice(2);
const answers = [];

async function main() {
  const client = new DebugClient(python, "", "warpsim");
  const server = spawn(python, ["-m", "warpsim", "dap"], { stdio: ["pipe", "pipe", "inherit"] });
  client.connect(server.stdout, server.stdin);
  const source = { path: kernel };
  const ask = async (name, args, fails) => {
    try {
      const answer = await client.customRequest(name, args);
      answers.push([name, fails ? "should have failed" : "ok"]);
      return answer.body;
    } catch (problem) {
      answers.push([name, fails && problem.message.includes(fails) ? "ok" : problem.message]);
    }
  };
  const stopped = (reason) => client.waitForEvent("stopped", 10000).then((event) => {
    if (event.body.reason !== reason) throw new Error(`stopped by ${event.body.reason}, not ${reason}`);
    return event.body.threadId;
  });
  const moved = async (name, args, reason) => {
    const [thread] = await Promise.all([stopped(reason), ask(name, args)]);
    return thread;
  };

  const abilities = await ask("initialize", { adapterID: "warpsim", linesStartAt1: true, columnsStartAt1: true, pathFormat: "path" });
  if (!abilities.supportsStepBack) throw new Error("no step back");
  await ask("attach", {}, "use the request launch");
  await ask("launch", { program: kernel, grids: 1 }, "did you mean \"grid\"");
  const ready = client.waitForEvent("initialized");
  await ask("launch", { program: kernel, grid: [1], block: [64], args: ["zeros:u32:64", "i32:5"] });
  await ready;
  await ask("setBreakpoints", { source, breakpoints: [{ line: 33, condition: "%tid.x == 40" }, { line: 35, logMessage: "n is {n}" }] });
  await ask("setFunctionBreakpoints", { breakpoints: [{ name: "twice", hitCondition: "1" }] });
  await ask("setExceptionBreakpoints", { filters: ["findings"], filterOptions: [{ filterId: "arrival" }] });
  await moved("configurationDone", {}, "entry");
  await ask("threads");
  await ask("modules", {});
  await ask("loadedSources", {});
  await ask("breakpointLocations", { source, line: 17, endLine: 30 });
  await ask("source", { sourceReference: 1, source });
  await moved("next", { threadId: 1 }, "step");
  await moved("stepIn", { threadId: 1, granularity: "instruction" }, "step");
  await moved("stepBack", { threadId: 1 }, "step");
  await moved("continue", { threadId: 1 }, "breakpoint");
  const frames = (await ask("stackTrace", { threadId: 1, startFrame: 0, levels: 20 })).stackFrames;
  const scopes = (await ask("scopes", { frameId: frames[1].id })).scopes;
  for (const scope of scopes) await ask("variables", { variablesReference: scope.variablesReference });
  await ask("variables", { variablesReference: scopes[0].variablesReference, start: 0, count: 2 });
  await ask("setVariable", { variablesReference: scopes[0].variablesReference, name: "%r3", value: "7" });
  await ask("setExpression", { expression: "%r3", value: "8", frameId: frames[1].id });
  await ask("evaluate", { expression: "n + 1", context: "watch", frameId: frames[1].id });
  await ask("evaluate", { expression: "n", context: "hover", frameId: frames[1].id });
  await ask("evaluate", { expression: "info cuda warps", context: "repl" });
  await ask("evaluate", { expression: "x/4i $pc", context: "repl" });
  await ask("evaluate", { expression: "p n", context: "repl" });
  await ask("evaluate", { expression: "p $1 + 1", context: "repl" });
  await ask("evaluate", { expression: "continue", context: "repl" }, "use the editor");
  await ask("evaluate", { expression: "nothing at all", context: "watch" }, "expected");
  await ask("completions", { text: "info cu", column: 8 });
  await ask("disassemble", { memoryReference: frames[0].instructionPointerReference, instructionCount: 4 });
  await moved("stepOut", { threadId: 1 }, "step");
  const target = (await ask("gotoTargets", { source, line: 33 })).targets[0];
  await moved("goto", { threadId: 1, targetId: target.id }, "goto");
  await ask("setInstructionBreakpoints", { breakpoints: [] });
  await ask("setFunctionBreakpoints", { breakpoints: [] });
  await moved("continue", { threadId: 1 }, "exception");
  await ask("exceptionInfo", { threadId: 1 });
  await ask("setExceptionBreakpoints", { filters: ["findings"] });
  await ask("dataBreakpointInfo", { name: "%r1" });
  const info = await ask("dataBreakpointInfo", { name: "s[63]" });
  await ask("setDataBreakpoints", { breakpoints: [{ dataId: info.dataId, accessType: "write", condition: "s[63] > 2" }] });
  const second = await moved("continue", { threadId: 1 }, "breakpoint");
  await moved("continue", { threadId: second }, "data breakpoint");
  await moved("reverseContinue", { threadId: second }, "data breakpoint");
  await ask("setDataBreakpoints", { breakpoints: [] });
  await ask("readMemory", { memoryReference: "shared:0x0", count: 16 });
  await ask("writeMemory", { memoryReference: "shared:0x0", data: "AQI=" });
  await ask("pause", { threadId: 1 });
  await moved("restart", {}, "entry");
  await ask("setBreakpoints", { source, breakpoints: [] });
  await ask("nonsense", {}, "unknown request");
  const ended = client.waitForEvent("terminated");
  await ask("terminate");
  await ended;
  await ask("disconnect");
}

main().then(() => 0, (problem) => { answers.push(["the client", String(problem)]); return 1; })
  .then((status) => { console.log(JSON.stringify(answers)); process.exit(status); });
