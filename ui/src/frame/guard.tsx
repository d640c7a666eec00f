// What is left when a part of the page fails: a message in its place, and the rest of the page.
import { Component, type ReactNode } from "react";
import { IconWarning } from "./icons";

interface Props {
  /** What is inside, as the message names it: "The page Explore". */
  what: string;
  /** What is shown in place of the message. */
  instead?: ReactNode;
  children: ReactNode;
}

/** Holds a part that is drawn from the monitor's answers or loaded when it is needed. Both can fail: an answer
 * of another version, a part of the page that the monitor no longer has since it was updated. */
export class Guard extends Component<Props, { failed: string | null }> {
  override state = { failed: null };

  static getDerivedStateFromError(e: unknown): { failed: string } {
    return { failed: e instanceof Error ? e.message : String(e) };
  }

  /** An error that is caught is still one: the browser's console lists it, with its place in the code. */
  override componentDidCatch(e: unknown): void {
    reportError(e);
  }

  override render(): ReactNode {
    const { failed } = this.state;
    const { what, instead, children } = this.props;
    if (failed === null) return children;
    if (instead) return instead;
    return (
      <div className="problem" role="alert">
        <IconWarning />
        <span>
          {what} cannot be shown: {failed}. If the monitor was updated, reload this page.
        </span>
        <button type="button" className="text-button" onClick={() => window.location.reload()}>
          Reload
        </button>
      </div>
    );
  }
}
