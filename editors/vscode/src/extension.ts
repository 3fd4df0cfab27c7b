// The client of `warpsim lsp`, debugging by `warpsim dap`, and the view of the warp that stands still.

import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";
import { WarpView } from "./warp";

let client: LanguageClient | undefined;

/** The command line of warpsim: of the chosen Python, or of the PATH. */
function command(name: string): { command: string; args: string[] } {
  const python = vscode.workspace.getConfiguration("warpsim").get<string>("python", "");
  return python ? { command: python, args: ["-m", "warpsim", name] } : { command: "warpsim", args: [name] };
}

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const checks = () => vscode.workspace.getConfiguration("warpsim").get<string>("checks");
  const debug = (folder: string) =>
    vscode.debug.startDebugging(undefined, { type: "warpsim", request: "launch", name: "Recorded launch", case: folder, checks: checks() });
  const view = new WarpView();
  context.subscriptions.push(
    vscode.commands.registerCommand("warpsim.debug", debug),
    vscode.debug.registerDebugAdapterDescriptorFactory("warpsim", {
      createDebugAdapterDescriptor: () => {
        const { command: program, args } = command("dap");
        return new vscode.DebugAdapterExecutable(program, args);
      },
    }),
    vscode.debug.registerDebugAdapterTrackerFactory("warpsim", { createDebugAdapterTracker: (session) => view.track(session) }),
    vscode.window.registerWebviewViewProvider("warpsim.warp", view),
  );
  client = new LanguageClient("warpsim", "warpsim", command("lsp"), {
    documentSelector: [{ language: "ptx" }],
    initializationOptions: { debug: true, checks: checks() },
  });
  try {
    await client.start();
  } catch (problem) {
    const install = 'warpsim lsp does not start. In a terminal: python -m pip install "warpsim[lsp]"; then set warpsim.python.';
    void vscode.window.showErrorMessage(`${install} (${problem})`);
  }
}

export function deactivate(): Promise<void> | undefined {
  return client?.stop();
}
