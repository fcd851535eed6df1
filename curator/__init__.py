"""The curator: holds private images and answers with differentially private gradients."""
