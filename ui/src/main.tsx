import "@mantine/core/styles/baseline.css";
import "@mantine/core/styles/default-css-variables.css";
import "@mantine/core/styles/global.css";
import "@mantine/core/styles/UnstyledButton.css";
import "@mantine/core/styles/ScrollArea.css";
import "@mantine/core/styles/Paper.css";
import "@mantine/core/styles/Popover.css";
import "@mantine/core/styles/Tooltip.css";
import "@mantine/core/styles/CloseButton.css";
import "@mantine/core/styles/Input.css";
import "@mantine/core/styles/InlineInput.css";
import "@mantine/core/styles/Combobox.css";
import "@mantine/core/styles/Menu.css";
import "./tokens.css";
import "./styles.css";
import "./frame/frame.css";
import "./frame/controls.css";
import "./frame/verdict.css";
import "./frame/tables.css";
import "./charts/charts.css";
import { createRoot } from "react-dom/client";
import { App } from "./frame/app";
import { scheme } from "./state/use-theme";

// Before the first paint, so a dark page does not flash light.
document.documentElement.setAttribute("data-mantine-color-scheme", scheme());

createRoot(document.getElementById("root")!).render(<App />);
