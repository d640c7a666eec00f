package cli
import "github.com/spf13/cobra"
func claimsCommand(env Env) *cobra.Command { return &cobra.Command{Use:"claims"} }
