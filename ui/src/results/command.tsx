// A command with a button that copies it.
import { useState } from "react";
import { copyText } from "../state/clipboard";

export function Command({ text }: { text: string }) {
  const [said, setSaid] = useState("");
  const copy = async () => {
    setSaid((await copyText(text)) ? "Copied" : "Select and copy the command");
    setTimeout(() => setSaid(""), 2500);
  };
  return (
    <div className="command">
      <code tabIndex={0}>{text}</code>
      <button type="button" className="text-button" aria-label={`Copy the command ${text}`} onClick={() => void copy()}>
        Copy
      </button>
      <span className="dim small" role="status">
        {said}
      </span>
    </div>
  );
}
