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
  const recorded = (folder: string) =>
    ({ type: "warpsim", request: "launch", name: "Recorded launch", case: folder, checks: checks() });
  const debug = (folder: string) => vscode.debug.startDebugging(undefined, recorded(folder));
  const view = new WarpView();
  context.subscriptions.push(
    vscode.commands.registerCommand("warpsim.debug", debug),
    vscode.debug.registerDebugConfigurationProvider("warpsim", {
      // F5 without a launch.json: the launch recorded beside the file, or else (null) a launch.json to fill in.
      resolveDebugConfiguration: async (_, given) => {
        const file = vscode.window.activeTextEditor?.document.uri;
        if (given.type || !file) return given;
        const folder = vscode.Uri.joinPath(file, "..");
        const names = (await vscode.workspace.fs.readDirectory(folder)).map(([name]) => name);
        return names.includes("case.json") ? recorded(folder.fsPath) : null;
      },
    }),
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
