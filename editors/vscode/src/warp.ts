// The view "Warp": the registers of all lanes, and the matrices of the instruction that comes next.

import * as vscode from "vscode";
import { page, type Warp } from "./page";

export class WarpView implements vscode.WebviewViewProvider {
  private view: vscode.WebviewView | undefined;
  private session: vscode.DebugSession | undefined;
  private before: Warp | undefined;

  resolveWebviewView(view: vscode.WebviewView): void {
    this.view = view;
    view.webview.options = { enableScripts: false };
    view.onDidChangeVisibility(() => void this.show());
    void this.show();
  }

  /** Look at each stop of a session. */
  track(session: vscode.DebugSession): vscode.DebugAdapterTracker {
    this.session = session;
    return {
      onDidSendMessage: (message) => {
        if (message.type === "event" && message.event === "stopped") void this.show();
      },
      onWillStopSession: () => {
        this.session = this.before = undefined;
      },
    };
  }

  private async show(): Promise<void> {
    if (!this.view?.visible || !this.session) return;
    try {
      const warp: Warp = await this.session.customRequest("warp");
      this.view.webview.html = page(warp, this.before);
      this.before = warp;
    } catch (problem) {
      this.view.webview.html = `<p>${String(problem).replace(/[&<]/g, (c) => `&#${c.charCodeAt(0)};`)}</p>`;
    }
  }
}
